"""Load, digest, lock and validate recipes; the built-in catalog."""
