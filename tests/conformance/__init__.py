"""What the pocket server and a real one have to agree on."""
