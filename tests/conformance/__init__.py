"""What the test API server and a real one have to agree on."""
