"""Users, passwords, sessions, API tokens, device codes and the set-up link."""
