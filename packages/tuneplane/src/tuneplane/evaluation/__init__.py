"""Evaluations that need no experiment of one's own: named suites, and the packaged template of evalkit/benchmark as their package."""
