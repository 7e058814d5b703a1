"""How the command starts: launched by a runtime or by hand, and how it is told that it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri import api
from nri.wire import Code

from ..rig.daemon import COMMAND
from ..rig.machine import Machine, launched

THE_SIX = 0b110_0010_0111
"""Bit N-1 for RunPodSandbox 1, Stop- and RemovePodSandbox 2, 3, StartContainer 6, Stop- and RemoveContainer 10, 11."""


# ---- launched


def test_launched_as_a_symlink_it_registers_as_the_environment_says_and_serves(node: Machine) -> None:
    link = node.path / "07-legacy"
    link.symlink_to(COMMAND)
    for environ in (launched("legacy", "07"), {"NRI_PLUGIN_SOCKET": "3"}):  # else it is what its file is called
        daemon = node.spawn([link], environ)
        registration = daemon.registration()
        assert (registration.plugin_name, registration.plugin_idx) == ("legacy", "07")
        assert registration.NRI_version == "v0.12.5"
    daemon.configure(node.settings())
    daemon.serves("Synchronize")
    node.still_serves(daemon)


@pytest.mark.parametrize("with_", ["everything on /dev/null", "nothing open", "a directory that is gone"])
def test_it_starts(node: Machine, monkeypatch: pytest.MonkeyPatch, with_: str) -> None:
    """An administrator's `<&- >&- 2>&-`: no file or socket of ours may then become a plugin's stdin, or our stderr."""
    closing: list[str | Path] = ["/bin/sh", "-c", 'exec "$0" <&- >&- 2>&-', COMMAND]
    if with_ == "a directory that is gone":
        gone = node.path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
    daemon = node.spawn(closing if with_ == "nothing open" else [COMMAND], stderr="null", fresh=True)
    monkeypatch.undo()
    node.still_serves(daemon.handshake(node.settings()))


def test_the_answer_to_configure_asks_for_the_six_legacy_events_also_without_plugins_and_to_be_kept(
    node: Machine,
) -> None:
    node.conf_json.unlink()
    for fail in (None, True, False):
        settings = node.settings() if fail is None else node.settings(runtime={"failRequest": fail})
        policy = api.FailurePolicy(keep_connected=True, fail_request=bool(fail))
        daemon = node.spawn().handshake(settings, nri="v0.12.3")
        assert daemon.configured == api.ConfigureResponse(events=THE_SIX, failure_policy=policy)
        assert not fail or daemon.logged("WARNING runtime.failRequest has no effect: the NRI of test v1.0.0 is older")


# ---- not wanted


def test_a_socket_that_is_none_is_named(node: Machine) -> None:
    daemon = node.spawn(environ=launched(fd="seven"))
    assert daemon.ended() == 1
    assert "NRI_PLUGIN_SOCKET=seven" in daemon.log[-1]


def test_a_refused_registration_is_one_line_that_names_plugin_and_reason_and_exit_code_1(node: Machine) -> None:
    daemon = node.spawn(environ=launched("legacy", "07"))
    daemon.answer(daemon.request(), Code.UNKNOWN, "index 07 is taken")
    assert daemon.ended() == 1
    (line,) = daemon.log
    assert line.endswith(" ERROR the runtime refused plugin 07-legacy: index 07 is taken")


def test_with_a_runtime_that_goes_before_it_accepts_the_plugin_it_ends(node: Machine) -> None:
    daemon = node.spawn(by_process=True)
    daemon.request()
    daemon.end_runtime()
    assert daemon.ended() == 0
