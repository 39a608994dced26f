"""What running jobs send: tokens, the ingest endpoints, heartbeats, and what of it the ledger must hear."""
