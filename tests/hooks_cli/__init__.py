"""The sample hooks, their schemas, and the commands about hooks."""
