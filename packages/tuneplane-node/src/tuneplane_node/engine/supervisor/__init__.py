"""The watcher of one command in process mode: a program of its own (`__main__.py`), standard library only.

It is run as `python -I -S <this directory> RECORD_DIR`; the modules beside it are also imported by the engine.
"""
