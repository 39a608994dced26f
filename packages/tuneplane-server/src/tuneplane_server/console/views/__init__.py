"""What the API says, arranged for templates: pure functions from JSON-shaped values to JSON-shaped values."""
