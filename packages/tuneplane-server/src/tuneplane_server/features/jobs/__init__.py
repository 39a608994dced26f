"""Jobs: admission, the ledger, the capsule."""
