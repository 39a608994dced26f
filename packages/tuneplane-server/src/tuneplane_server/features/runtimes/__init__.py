"""Runtimes: what a runtime id is here, by the form that an executor can run. The registry file, and how a job's runtime is found."""
