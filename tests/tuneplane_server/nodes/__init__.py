"""Nodes that join, are looked after, and go."""
