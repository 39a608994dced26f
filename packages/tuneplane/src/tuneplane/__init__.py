"""TunePlane on the user's side: the lab, the command line, and everything a training container needs."""

__version__ = "0.1.0"
