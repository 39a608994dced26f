"""Alerts: rules per project, what fired, notices to people, signed webhooks."""
