"""Lab packages, by digest."""
