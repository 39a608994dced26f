"""Pure rules: no I/O, no clock, no randomness, no database. Time and random bytes are arguments."""
