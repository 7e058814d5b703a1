"""Legacy plugins of the end-to-end runs that are programs beside this file."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path


def install(conf: Path, program: Path, **settings: str) -> None:
    """Installs a program as the only plugin, by its name, with these settings as its `conf`."""
    plugin = Path("/opt/nri/bin", program.stem)
    for folder in (plugin.parent, conf.parent):
        folder.mkdir(parents=True, exist_ok=True)
    plugin.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", str(program)])} "$@"\n')
    plugin.chmod(0o755)
    conf.write_text(json.dumps({"version": "0.1", "plugins": [{"type": plugin.name, "conf": settings}]}))
