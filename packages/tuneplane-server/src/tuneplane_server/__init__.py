"""The console: API, web pages and background roles."""

__version__ = "0.1.0"
