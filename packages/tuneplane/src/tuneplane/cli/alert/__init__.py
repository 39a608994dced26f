"""`tp alert …`: what a project is told about its runs."""
