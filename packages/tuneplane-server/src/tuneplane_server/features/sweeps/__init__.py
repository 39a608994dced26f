"""Sweeps: many runs of one experiment with other parameters, begun, compared and stopped early by the console."""
