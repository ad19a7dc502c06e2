"""Programs of others that tests need, built from pinned Go modules into a cache."""
