"""One folder per feature: tables, repo, service, api, pages."""
