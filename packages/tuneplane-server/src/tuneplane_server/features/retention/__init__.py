"""Retention: how long a project keeps what its runs reported."""
