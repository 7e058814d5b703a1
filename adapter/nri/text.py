"""Text for logs and terminals: without control characters; the names of pods and containers."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns a text with all unprintable characters escaped: line ends, control characters, lone surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def subject(kind: str, id_: str, *names: str) -> str:
    """Returns the subject of a log line: `container NAMESPACE/POD/NAME (ID)`. Unknown names are left out."""
    name = "/".join(filter(None, names))
    return f"{kind} {name} ({id_})" if name else f"{kind} {id_}"
