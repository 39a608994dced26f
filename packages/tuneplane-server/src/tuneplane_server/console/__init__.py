"""Templates, static assets and translations of the web console."""
