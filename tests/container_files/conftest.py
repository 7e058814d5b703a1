from pathlib import Path

import pytest

from . import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
