"""`v010-adapter hooks`: shows the hooks in force, and which of them a container gets."""
