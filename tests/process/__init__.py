"""A program that is started: its pipes and its end."""
