"""The command `version`: prints the versions."""

from __future__ import annotations

from argparse import Namespace

from v010_adapter.cli.arguments import FINE, Parser, versions


def parser() -> Parser:
    return Parser("version", "Prints the versions of the adapter, of Python and of NRI.")


def main(options: Namespace) -> int:
    print(versions())
    return FINE
