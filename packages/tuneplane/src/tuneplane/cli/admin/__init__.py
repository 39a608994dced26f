"""`tp admin …`: one module per command."""
