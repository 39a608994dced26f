"""Evaluations: the reports of runs that measured a model, read when their artifacts are registered, listed and compared."""
