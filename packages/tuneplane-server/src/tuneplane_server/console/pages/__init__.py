"""The pages people see: sign-in, jobs, one job, tokens. Each module is one router; `console.site` hangs them on the app."""
