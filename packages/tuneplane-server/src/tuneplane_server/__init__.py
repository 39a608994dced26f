"""The console: API, web pages and background roles."""
