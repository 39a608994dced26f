"""Typed HTTP client of the console."""
