"""Background roles, leases and the supervised loop."""
