"""The records of what is owed, and the state directory that they lie in."""
