"""The command line: one module, or package, for each command."""
