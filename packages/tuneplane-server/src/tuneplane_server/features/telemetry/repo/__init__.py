"""SQL of telemetry: one module per table family."""
