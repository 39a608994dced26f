"""The engine behind HTTP: what `tuneplane-node serve` runs."""
