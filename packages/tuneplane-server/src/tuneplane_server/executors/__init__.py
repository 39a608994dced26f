"""The executor port and its implementations."""
