"""What the adapter's wheel requires, for hatchling: the packages that pyproject.toml lists, and nri.

nri is another distribution of this tree. A wheel that is built here requires the directory beside it: `pip install .`
is one command, and never takes what the package index has under this name. A wheel that leaves the machine is built
with V010_ADAPTER_RELEASE set, and requires nri's version.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Sets `dependencies`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds nri to the list of pyproject.toml."""
        is_released = bool(os.environ.get("V010_ADAPTER_RELEASE"))
        nri = f"nri=={metadata['version']}" if is_released else f"nri @ {Path(self.root, 'adapter').as_uri()}"
        metadata["dependencies"] = [nri, *self.config["dependencies"]]
