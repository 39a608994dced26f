"""The recipes this server publishes."""
