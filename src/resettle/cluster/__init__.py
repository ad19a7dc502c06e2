"""The API server: how it is reached, listed, watched and asked to act; and dumps of what it has."""
