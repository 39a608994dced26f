"""Loads the fixtures that start real services; see tests/services/NOTES.md."""

pytest_plugins = ["tests.services.plugin"]
