"""The files of a container and of its pod, for all tests of what is read of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from v010_adapter import container_files
from v010_adapter.container_files import Described
from v010_adapter.errors import ConfigError

Json = dict[str, Any]
Text: TypeAlias = str | bytes | Json | list[Json]


class Files:
    """A container's file `c` and its pod's `p`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, text: Text, pod: str = "", name: str = "", command: str = "") -> Described:
        content = text if isinstance(text, str | bytes) else json.dumps(text)
        (self.folder / "c").write_bytes(content if isinstance(content, bytes) else content.encode())
        (self.folder / "p").write_text(pod)
        return container_files.read(str(self.folder / "c"), str(self.folder / "p") if pod else "", name, command)

    def refused(self, text: Text, pod: str = "", name: str = "", command: str = "") -> str:
        """Why the files are of no use."""
        with pytest.raises(ConfigError) as caught:
            self.read(text, pod, name, command)
        return str(caught.value).replace(f"{self.folder}/", "")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
