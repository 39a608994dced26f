"""Metrics that a framework leaves in files or prints, when it does not use `tuneplane.report`: read where they grow, and fed
into the same path as the reporter's lines (adapters' `log_hints` say where and what)."""
