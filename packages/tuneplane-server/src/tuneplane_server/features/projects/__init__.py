"""Projects: what a user's labs hand in, by name."""
