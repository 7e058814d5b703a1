"""Enumerations as keys of tables."""

from __future__ import annotations

from enum import Enum


class Key(Enum):
    """An enumeration whose members are keys in tables. Enum's own hash is slower: Python code computes it."""

    __hash__ = object.__hash__
