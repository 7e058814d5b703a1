"""The life of an event's work, and programs that stand by for it."""
