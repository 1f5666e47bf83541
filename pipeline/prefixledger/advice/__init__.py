"""What to change: every advice is a scenario that was replayed on the log, and what it came to."""
