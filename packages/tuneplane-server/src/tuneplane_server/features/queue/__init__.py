"""The queue as it is read: who waits, for what, and whose turn it is. What starts is `background/placer.py`'s to carry out."""
