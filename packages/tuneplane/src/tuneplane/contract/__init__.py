"""The shared words: every shape that crosses a border between two rooms of TunePlane.

Import the module you need (`tuneplane.contract.jobspec`, …); this package imports nothing, so that the
standard-library-only rooms (runner, report, adapters) can use `words` and `names` without pydantic.
"""
