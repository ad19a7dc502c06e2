"""What the project is worked on with; nothing here is installed."""
