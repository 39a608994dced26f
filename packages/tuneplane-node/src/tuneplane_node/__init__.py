"""The node daemon: runs job containers on one machine."""
