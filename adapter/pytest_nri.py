"""The pytest fixture `nri_runtime`. Every run of pytest loads this module where the package is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nri.testing.node import Node


@pytest.fixture
def nri_runtime(request: pytest.FixtureRequest) -> Iterator[Node]:
    """An `nri.testing.node.Node` without plugins, which is stopped after the test.

    It plays containerd 2.4.2, or the runtime that the test is parametrized with:
    `@pytest.mark.parametrize("nri_runtime", ["containerd/1.7.35", "cri-o/1.36.3"], indirect=True)`.
    """
    from nri.testing.node import Node  # only where the fixture is used  # noqa: PLC0415

    with Node(getattr(request, "param", "")) as node:
        yield node
