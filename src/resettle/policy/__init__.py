"""The policy document: read it, name each of its problems, convert old versions of it."""
