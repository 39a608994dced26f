"""What the machine, its cards and its jobs use, from one moment to the next."""
