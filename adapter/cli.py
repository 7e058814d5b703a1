"""The command line."""

import sys


def main() -> int:
    """Runs the command; returns its exit code."""
    print("not built yet", file=sys.stderr)
    return 2
