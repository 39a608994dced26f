"""Governance: quotas of users and projects, policies of the installation, maintenance."""
