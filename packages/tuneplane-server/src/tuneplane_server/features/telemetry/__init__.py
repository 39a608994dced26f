"""Metrics, logs, samples and events of runs: stored exactly once, in columns and chunks, and read back."""
