"""Inventory, allocation, container runtimes and job supervision of one machine."""
