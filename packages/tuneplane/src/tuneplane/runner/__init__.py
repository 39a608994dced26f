"""What runs inside the training container. Standard library only."""
