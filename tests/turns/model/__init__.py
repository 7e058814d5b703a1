"""A model of the rules of turns and records, which spin checks in every reachable state."""
