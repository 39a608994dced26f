"""Profiles, nodes and who holds which card."""
