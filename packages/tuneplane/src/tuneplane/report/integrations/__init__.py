"""Callbacks for frameworks. Importing one does not import its framework."""
