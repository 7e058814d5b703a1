"""The pytest fixture `nri_runtime`.

Every run of pytest imports this module where nri is installed. So its name is no other project's, and it imports nri in
the fixture alone: a project may have a file nri.py, and its other tests must run.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nri.testing import Node


@pytest.fixture
def nri_runtime(request: pytest.FixtureRequest) -> Iterator[Node]:
    """An `nri.testing.Node` without plugins, which is stopped after the test.

    It plays containerd 2.4.2, or the runtime that the test is parametrized with:
    `@pytest.mark.parametrize("nri_runtime", ["containerd/1.7.35", "cri-o/1.36.3"], indirect=True)`.
    """
    found = find_spec("nri")
    if found and found.origin and not Path(__file__).with_name("nri").joinpath("__init__.py").samefile(found.origin):
        pytest.fail(f"{found.origin} hides the package nri, which has the fixture's runtime: rename it", pytrace=False)
    from nri.testing import Node  # only where the fixture is used  # noqa: PLC0415

    with Node(getattr(request, "param", "")) as node:
        yield node
