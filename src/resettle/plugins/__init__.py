"""The plugins that come with resettle, one file for each."""
