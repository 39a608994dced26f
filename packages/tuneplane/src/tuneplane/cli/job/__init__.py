"""`tp job …`: one module per command."""
