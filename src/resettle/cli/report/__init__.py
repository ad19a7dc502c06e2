"""The page that `simulate --report` writes: one file, for any browser, with no network."""
