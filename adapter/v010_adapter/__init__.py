"""v010-adapter: legacy NRI v0.1.0 plugins under today's container runtimes."""

__version__ = "0.1.0"
