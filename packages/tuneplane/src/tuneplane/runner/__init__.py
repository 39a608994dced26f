"""What runs inside the training container. Standard library only, CPython 3.9 to 3.14.

`python runner.pex <capsule dir>` ends in `main.main`. Data goes one way: trainer output and report files → `recorder` → `spool`
on disk → `shipper` → the console's ingest. Only `main` knows them all.
"""
