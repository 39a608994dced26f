"""`tp webhook …`: where a project's alerts are sent."""
