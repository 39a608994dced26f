"""Who did what: an append-only record."""
