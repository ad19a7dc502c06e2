"""How busy nodes are: where the figures come from, and what they are measured against."""
