"""`tp sweep …`: many runs of one experiment with other parameters."""
