"""Report metrics and samples from a training script. Standard library only."""
