"""How long before the deadline the adapter answers."""

from __future__ import annotations

import pytest

from nri import Context, api
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.settings import parse

from .rig.loop import SteppedLoop
from .rig.serving import Link


def test_it_depends_on_whether_the_runtime_keeps_late_plugins(loop: SteppedLoop) -> None:
    for nri, text, seconds in (
        *(("v0.12.4", "", 0.1), ("v0.12.5", "", 0.1), ("v0.12.3", "", 0.25), ("", "", 0.25)),
        *(("v0.12.3", "runtime: {reserve: 0}", 0), ("v0.12.5", "runtime: {reserve: 1.5}", 1.5)),
        ("v0.12.5", "runtime: {reserve: auto}", 0.1),
    ):
        adapter = Adapter(loop, parse(text, "here")[0], [], "name", Link())
        adapter.configure(api.ConfigureRequest(NRI_version=nri), Context("Configure", 2, loop.time, 0))
        assert adapter.reserve == seconds, (nri, text)


@pytest.mark.parametrize(("now", "lines"), [(1.9, 0), (2.1, 1)])
def test_an_answer_behind_the_deadline_is_logged(
    loop: SteppedLoop, now: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = Adapter(loop, parse("", "here")[0], [], "name", Link())
    loop.now = now
    adapter.answered(Context("StartContainer", 2, loop.time, 0))
    text = "StartContainer was answered after its deadline: the runtime may drop the adapter"
    assert caplog.messages == [text] * lines
    assert adapter.describe()["events"]["StartContainer"]["late"] == lines
