"""The `tp` command."""
