"""Hook files, which containers get them, and what is injected."""
