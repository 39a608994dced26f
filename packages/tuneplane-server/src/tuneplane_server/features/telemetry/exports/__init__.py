"""Metrics and samples as tables of a file: CSV, JSON lines or Parquet, streamed with bounded memory."""
