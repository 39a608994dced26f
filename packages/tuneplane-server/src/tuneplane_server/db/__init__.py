"""Database engine and migrations."""
