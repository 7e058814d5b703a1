"""The pytest fixture `nri_runtime`.

Every run of pytest imports this module where nri is installed. So its name is no other project's, and it imports nri in
the fixture alone: a project may have a file nri.py, and its other tests must run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    with Node(getattr(request, "param", "")) as node, _line(request.config) as show:
        from nri.testing.contract import SITUATIONS  # noqa: PLC0415 - likewise

        node.progress = lambda number, rule: show(f"contract: {number} of {SITUATIONS}: {rule}")
        yield node


@contextmanager
def _line(config: pytest.Config) -> Iterator[Callable[[str], None]]:
    """Yields what shows a text in a line of the terminal, also while pytest captures output; the end clears it.

    Shows nothing where there is no terminal, and in a worker of xdist.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or capture is None or not reporter.isatty:
        yield lambda text: None
        return
    has_shown = False

    def show(text: str) -> None:
        nonlocal has_shown
        with capture.global_and_fixture_disabled():
            if not has_shown:
                reporter.ensure_newline()
            has_shown = True
            reporter.rewrite(text, erase=True)

    try:
        yield show
    finally:
        if has_shown:
            show("")
            with capture.global_and_fixture_disabled():
                reporter.rewrite("")
