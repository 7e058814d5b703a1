"""The table of plugins of others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nri.testing import FLAVOURS

from ..rig.embedded import patient
from . import judged
from .harness import PATIENT, require


@pytest.mark.ci
def test_a_row_has_what_the_contract_and_what_nri_itself_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged, "FLAVOURS", {"containerd/2.3.4": patient(FLAVOURS["containerd/2.3.4"])})
    monkeypatch.setattr(judged, "LIMITS", PATIENT)
    judged.main([str(require("idle")), shutil.which("false") or str(Path("/bin/false"))])
    idle, false = [[*map(str.strip, line.split("|"))][1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert idle[2:] == ["", ""]
    assert false[2:] == ["registers: containerd/2.3.4", "v0.12.0, v0.12.5"]
    hold, _, fail = map(int, idle[1].split(", "))
    assert (hold > 0, fail) == (True, 0)
