"""The files in which runtimes find the configuration of a plugin."""

from __future__ import annotations

from pathlib import Path

from v010_adapter.host import paths


def drop_in(config: Path, idx: str, base: str) -> str:
    """Returns a plugin's configuration in the drop-in directory, empty if there is none. Raises ConfigError."""
    texts = (paths.read_text(str(config / name)) for name in drop_ins(idx, base))
    return next((text for text in texts if text is not None), "")


def drop_ins(idx: str, base: str) -> tuple[str, str]:
    """Returns the possible names of a plugin's file in the drop-in directory. The first file that exists counts."""
    return f"{idx}-{base}.conf", f"{base}.conf"
