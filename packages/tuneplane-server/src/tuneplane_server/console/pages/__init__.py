"""The pages people see: sign-in, jobs, one job, tokens. Each module is one router; `install_site` hangs them on the app."""

from __future__ import annotations

from tuneplane_server.console.pages.site import install_site

__all__ = ["install_site"]
