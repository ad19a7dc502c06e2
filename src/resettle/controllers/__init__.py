"""Controllers: what should be, beside making it so."""
