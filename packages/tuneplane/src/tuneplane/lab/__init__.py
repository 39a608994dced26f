"""Find the lab, read its marker and experiments, pack it."""
