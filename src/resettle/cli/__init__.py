"""Words in, words out: the commands of resettle."""
