"""Admission: one rule per file, all refusals at once."""
