"""Writes the tables of docs/messages.md: NRI's messages as the generated stub has them, with their comments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nri.proto import nri_pb2

STUB = Path(nri_pb2.__file__).with_suffix(".pyi")
MARK = "<!-- messages -->"
"""The line of the page in whose place the tables are."""


def comments() -> dict[str, str]:
    """Returns the comments of messages and of fields, `MESSAGE.FIELD`, without line breaks in a paragraph."""
    found: dict[str, str] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name[0] != "_":
            found[node.name] = _words(ast.get_docstring(node) or "")
            for field, below in zip(node.body, [*node.body[1:], node], strict=True):
                if isinstance(field, ast.FunctionDef):
                    found[f"{node.name}.{field.name}"] = _words(ast.get_docstring(field) or "")
                elif isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    found[f"{node.name}.{field.target.id}"] = _words(_text(below))
    return found


def _text(node: ast.stmt) -> str:
    """Returns the docstring that a statement is; empty if it is none."""
    return str(node.value.value) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else ""


def _words(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def tables() -> Iterator[str]:
    """Yields the lines of the page: a section with a table for each message, then the words of each enumeration."""
    known = comments()
    for message in nri_pb2.DESCRIPTOR.message_types_by_name.values():
        yield from (f"## {message.name}", "", known[message.name], "")
        if message.fields:
            yield from ("| field | type | |", "|---|---|---|")
        for field in message.fields:
            meaning = known.get(f"{message.name}.{field.name}", "")
            yield f"| `{field.name}` | {_type(field)} | {meaning} |"
        yield ""
    for enumeration in nri_pb2.DESCRIPTOR.enum_types_by_name.values():
        yield from (f"## {enumeration.name}", "", known[enumeration.name], "")
        yield ", ".join(f"`{value.name}` {value.number}" for value in enumeration.values)
        yield ""


def _type(field: Any) -> str:
    inner = field.message_type or field.enum_type
    if field.message_type and inner.GetOptions().map_entry:
        return f"map of {_type(inner.fields_by_name['key'])} to {_type(inner.fields_by_name['value'])}"
    numbers = {field.TYPE_INT32: "int32", field.TYPE_INT64: "int64", field.TYPE_UINT32: "uint32"}
    kinds = {**numbers, field.TYPE_UINT64: "uint64", field.TYPE_BOOL: "bool", field.TYPE_STRING: "text"}
    name = kinds.get(field.type) or (inner.name if inner.containing_type else f"[{inner.name}](#{inner.name.lower()})")
    return f"list of {name}" if field.is_repeated else name
