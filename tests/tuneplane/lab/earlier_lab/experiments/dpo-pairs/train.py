"""The lab's own training script."""

print("trains")
