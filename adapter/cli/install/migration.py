"""The commands that move the list of legacy plugins to a file that containerd does not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from adapter import settings
from adapter.errors import ConfigError, reason_of
from adapter.host import paths
from adapter.host.paths import in_root

SHARED = settings.DEFAULT_CONF_JSON
"""The list of legacy plugins that containerd 2 reads, too."""
LIST = "/etc/nri/v010-adapter.json"


def commands(root: str, services: Sequence[str]) -> Iterator[str]:
    """Yields the commands, none if the adapter does not read the same file as containerd.

    They stop `services` meanwhile, so that no pod starts between the old list and the new one.
    """
    file = settings.DEFAULT_PATH
    text = _text(in_root(root, file))
    own, _ = settings.parse(text, file)
    if own.legacy.config != SHARED or not os.path.exists(in_root(root, SHARED)):
        return
    yield f"systemctl stop {' '.join(services)}"
    yield f"mv {SHARED} {LIST}"
    if re.search(r"^legacy\s*:", text, re.MULTILINE):
        yield f"# in {file}, in the section `legacy`: write `config: {LIST}`"
    else:
        yield f"echo 'legacy: {{config: {LIST}}}' >>{file}"
    yield f"systemctl start {' '.join(services)}"


def _text(path: str) -> str:
    try:
        return paths.text(paths.read(path, paths.MAX_INPUT)[0], path)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(path, reason_of(error)) from None
