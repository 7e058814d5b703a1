"""Precreate hooks, with real programs: what they are given, what is taken from them, and when they fail a container."""

from __future__ import annotations

import copy
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nri import Deferred, api
from nri.deferred import in_turn
from nri.errors import NRIError
from nri.runtimes import Runtime
from v010_adapter.events import precreate
from v010_adapter.events.hooks import HookBridge
from v010_adapter.hooks.match import NamedHook
from v010_adapter.hooks.model import Hook, When
from v010_adapter.monitoring.trace import Trace, created
from v010_adapter.oci.spec import spec_from
from v010_adapter.programs import apart
from v010_adapter.programs.children import children as children_of_daemon
from v010_adapter.programs.process import Runner
from v010_adapter.settings import HooksSettings

from ..rig.loop import SteppedLoop
from ..rig.processes import children, open_descriptors
from ..rig.programs import Fifo, Programs
from .hookdirs import text

ECHO = "cat"
"""A hook that changes nothing."""
PATH = ("PATH=/usr/bin:/bin",)
SAID = "precreate hook /hooks/a.json: "


def edited(by: str) -> str:
    """A script that edits the spec with sed."""
    return f"sed {shlex.quote(by)}"


A2, A3 = edited('s/"A=1"/"A=2"/'), edited('s/"A=2"/"A=3"/')


class Creation:
    """The creation of a container, in two seconds, with a hook of a later stage injected already."""

    def __init__(self, loop: SteppedLoop, *hooks: NamedHook, fail: bool = True, host_root: str = "/") -> None:
        pod = api.PodSandbox(id="p", namespace="default", name="web")
        env = ["PATH=/bin", "A=1"]
        container = api.Container(id="c1", name="nginx", args=["sleep"], env=env, annotations={"note": "x", "é": ""})
        request = api.CreateContainerRequest(pod=pod, container=container)
        response = api.CreateContainerResponse()
        response.adjust.hooks.poststop.add(path="/bin/true")
        response.adjust.CDI_devices.add(name="example.com/dev=1")
        response.update.add(container_id="c0")
        self.before, self.size = copy.deepcopy(response), request.ByteSize()
        self.loop = loop
        self.settled: tuple[api.CreateContainerResponse | None, Exception | None] | None = None
        self.runner = Runner(loop)
        bridge = HookBridge(loop, HooksSettings(fail_create=fail), self.runner, host_root)
        trace = Trace(about=created(request))
        answer = bridge._run_precreate(hooks, request, response, loop.now + 2, trace)
        assert isinstance(answer, Deferred)
        answer.then(self._settle)

    def _settle(self, response: Any, error: Exception | None) -> None:
        self.settled = response, error

    @property
    def error(self) -> str:
        self.loop.until(lambda: self.settled is not None, "no answer comes")
        _, error = self.settled or (None, None)
        assert error is None or isinstance(error, NRIError)
        return str(error or "")

    @property
    def response(self) -> api.CreateContainerResponse:
        assert not self.error
        assert self.settled is not None
        assert self.settled[0] is not None
        return self.settled[0]

    @property
    def env(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self.response.adjust.env if not entry.key.startswith("-")}


class Run:
    """Makes hooks and creates containers with them."""

    def __init__(self, loop: SteppedLoop, programs: Programs) -> None:
        self.loop, self.programs = loop, programs

    def hook(self, name: str, script: str, **keys: Any) -> NamedHook:
        keys = {"args": (), "env": PATH, "timeout": None, **keys}
        path = str(self.programs.shell(name, script))
        made = Hook(path=path, when=When(always=True), stages=("precreate",), **keys)
        return NamedHook(f"{name}.json", f"/hooks/{name}.json", made)

    def __call__(self, *scripts: str, fail: bool = True, **keys: Any) -> Creation:
        """Creates a container with hooks a, b, ...; `keys` are those of each hook."""
        hooks = [self.hook(name, script, **keys) for name, script in zip("abc", scripts, strict=False)]
        return Creation(self.loop, *hooks, fail=fail)


@pytest.fixture
def run(loop: SteppedLoop, programs: Programs) -> Run:
    return Run(loop, programs)


def test_what_hooks_change_becomes_an_adjustment_and_what_was_adjusted_before_stays(run: Run) -> None:
    """Each gets what the one before has printed, byte for byte, with its white space."""
    creation = run(ECHO)
    assert creation.response == creation.before
    creation = run(edited('s/"A=1"/ "A=2","B=3"/; s/"note":"x"/"note":"y"/'), edited('s/ "A=2"/"A=3"/'))
    assert creation.env == {"A": "3", "B": "3"}
    assert creation.response.adjust.annotations["note"] == "y"
    assert creation.response.adjust.hooks == creation.before.adjust.hooks


def test_a_hook_gets_the_compact_spec_with_the_other_hooks_in_it(run: Run, programs: Programs) -> None:
    assert not run(f"tee {programs.folder}/got").error
    text = (programs.folder / "got").read_text()
    spec = json.loads(text)
    assert text == json.dumps(spec, separators=(",", ":"), ensure_ascii=False)
    assert spec["process"]["args"] == ["sleep"]
    assert spec["hooks"]["poststop"] == [{"path": "/bin/true"}]


def test_argv_and_environment_are_what_the_file_says_and_nothing_else(run: Run, programs: Programs) -> None:
    script = 'tr "\\0" "\\n" </proc/$$/environ >"$1"; printf "%s\\n" "$@" >>"$1"; cat'
    got = f"{programs.folder}/got"
    assert not run(script, args=("name", got, "x y"), env=("PATH=/bin", "A=<b>=c", "D")).error
    assert (programs.folder / "got").read_text().splitlines() == ["PATH=/bin", "A=<b>=c", got, "x y"]


def test_what_cannot_be_passed_to_a_program_fails_the_hook_and_leaks_nothing(run: Run) -> None:
    before = open_descriptors()
    for odd in ({"env": ("A=\0",)}, {"args": ("a", "\0")}, {"args": ("x" * 3_000_000,)}):
        assert run(ECHO, **odd).error.startswith(SAID)
        assert open_descriptors() <= before
        assert run(ECHO, ECHO, fail=False, **odd).env == {}


def test_the_program_is_where_the_nodes_files_are(
    run: Run, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    of = run.hook("a", A2)
    inside = of._replace(hook=of.hook._replace(path="/a"))
    assert Creation(run.loop, inside, host_root=f"{programs.folder}/").env == {"A": "2"}
    (programs.folder / "a").unlink()
    assert Creation(run.loop, of).error == f"{SAID}{programs.folder}/a: No such file or directory"
    assert f"{programs.folder}/a: No such file or directory" in caplog.text


FAILURES = [
    ("echo boom >&2; exit 3", "exit code 3"),
    ("cat; exit 1", "exit code 1"),  # though it has printed the spec
    ("kill -9 $$", "killed by signal 9"),
    ("exit", "no output"),
    ("cat; echo more", "text after the JSON value"),
    ("echo '{'", "line 2, column 1: unexpected end"),
    ("echo '[]'", "its output is not an object"),
    (edited('s/"args"/"user":{"uid":7},"args"/'), "process.user"),
    (edited('s/"env":[^]]*]/"env":7/'), "process.env: "),
    # What the runtime does not know.
    (edited('s/"args":."sleep"./"args":["true"]/'), "process.args: needs NRI 0.10.0, the runtime has 0.8.0"),
]


def test_a_hook_that_fails_fails_the_container_by_name_or_costs_its_own_edits_only(
    run: Run, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    for script, reason in FAILURES:
        error = run(script, f"touch {programs.folder}/ran; cat").error
        assert error.startswith(SAID)
        assert reason in error
        assert not (programs.folder / "ran").exists()
        caplog.clear()
        assert run(A2, script, A3, fail=False).env == {"A": "3"}
        assert all(part in caplog.text for part in ("precreate hook /hooks/b.json: ", reason, "(tolerated)"))


def reaped(loop: SteppedLoop) -> None:
    """Waits until every hook has been reaped: those that were killed are not waited for by their container."""
    loop.until(lambda: not children(), "hooks are left")


HANG = "exec sleep 1000"


@pytest.mark.parametrize(("timeout", "default", "limit"), [(1, 9, 1.0), (None, 1, 1.0), (None, 0, 2.0), (60, 0, 2.0)])
def test_a_hook_that_is_not_done_in_its_time_is_killed(
    run: Run, timeout: int | None, default: int, limit: float
) -> None:
    creation = Creation(run.loop, run.hook("a", HANG, timeout=timeout)._replace(default_timeout=default))
    run.loop.advance(limit - 0.01)
    assert creation.settled is None
    run.loop.advance(0.01)
    assert creation.error == f"{SAID}no result within {limit:.1f} s"
    reaped(run.loop)


def test_a_hook_behind_one_that_was_late_has_the_time_that_is_left(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    creation = Creation(run.loop, run.hook("a", HANG, timeout=1), run.hook("b", A2), fail=False)
    run.loop.advance(1)
    assert creation.env == {"A": "2"}
    creation = run(HANG, ECHO, fail=False)
    run.loop.advance(2)
    assert creation.env == {}
    assert "precreate hook /hooks/b.json: no time was left (tolerated)" in caplog.text
    reaped(run.loop)


@pytest.mark.parametrize(("timeout", "limit"), [(60, "`timeout` in /hooks/a.json"), (None, "hooks.timeout")])
def test_a_late_hooks_error_names_the_one_before_it_that_took_long(
    run: Run, gate: Fifo, timeout: int | None, limit: str
) -> None:
    creation = run(f"cat; read line <{gate}", HANG, timeout=timeout)
    run.loop.advance(1.5)
    gate.put()
    run.loop.until(lambda: "b.json" in creation.runner.accounts, "the first hook does not end")
    run.loop.advance(0.5)
    late = f"no result within 0.5 s: a.json took 1.5 s ({limit})"
    assert creation.error == f"precreate hook /hooks/b.json: {late}"
    reaped(run.loop)


def test_a_failure_names_the_container_and_counts_for_the_hook(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    creation = run("echo hello >&2; exit 1")
    assert f"creation of container default/web/nginx (c1): {creation.error}" in caplog.text
    assert "hello" not in caplog.text
    accounts = creation.runner.accounts.items()
    assert {name: (account.runs, account.failures) for name, account in accounts} == {"a.json": (1, 1)}
    caplog.set_level("DEBUG")
    assert run("echo hello >&2; exit 1").error == creation.error
    assert "a.json: container default/web/nginx (c1): stderr: hello" in caplog.text


def test_a_bug_that_its_output_meets_fails_the_hook(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("v010_adapter.base.gojson.plain", lambda *_: 1 // 0)
    assert "its result meets a bug of the adapter" in run(ECHO).error
    assert "ZeroDivisionError" in caplog.text


# From the hook files to the answer

BY_NEWER = edited('s/"args":."sleep"./"args":["true"]/')
TOO_LONG = "env[0]: 131072 bytes, at most 131071"


@pytest.mark.parametrize(
    ("script", "size", "fail", "found"),
    [
        (BY_NEWER, 0, True, "['', 'true']"),
        (HANG, 0, True, "a.json: no result within 2.0 s"),
        (BY_NEWER, 131_070, True, TOO_LONG),
        (BY_NEWER, 131_070, False, "[]"),
    ],
)
def test_a_creation_waits_for_its_hooks_unless_it_is_too_large_for_them(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, script: str, size: int, fail: bool, found: str
) -> None:
    """They may use what the runtime knows that was told last."""
    hook = text(program=str(run.programs.shell("a", script))).replace(b"prestart", b"precreate")
    (tmp_path / "a.json").write_bytes(hook)
    own = HooksSettings(directories=(str(tmp_path),), precreate=True, watch=False, fail_create=fail)
    hooks = HookBridge(run.loop, own, Runner(run.loop))
    hooks.start(Runtime(nri=(0, 12, 5)))
    container = api.Container(id="c1", args=["sleep"], env=["A=" + "x" * size])
    ended: list[str] = []

    def end(response: Any, error: Exception | None) -> None:
        ended.append(str(error or response.adjust.args))

    request = api.CreateContainerRequest(container=container)
    in_turn(hooks.on_creation(request, api.CreateContainerResponse(), run.loop.now + 2)).then(end)
    if script == HANG:
        run.loop.advance(2)
    run.loop.until(lambda: bool(ended))
    assert ended[0].endswith(found)
    assert (f"precreate hooks for container c1: {TOO_LONG} (none runs)" in caplog.text) == (found == "[]")
    reaped(run.loop)


# Large containers


def test_a_large_container_is_written_and_read_in_child_processes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon serves others meanwhile. Edits are the same."""
    at_once = run(A2, A3).response
    daemon, original = os.getpid(), spec_from

    def apart_only(*arguments: Any) -> Any:
        assert os.getpid() != daemon
        return original(*arguments)

    monkeypatch.setattr(apart, "LARGE", 0)
    monkeypatch.setattr(precreate, "spec_from", apart_only)
    assert run(A2, A3).response == at_once


@pytest.mark.parametrize("where", ["apply", "decode"])
@pytest.mark.parametrize("fail", [True, False])
def test_a_large_container_that_takes_too_long_is_decided_by_the_policy(
    run: Run, monkeypatch: pytest.MonkeyPatch, where: str, *, fail: bool
) -> None:
    monkeypatch.setattr(apart, "LARGE", 0)
    monkeypatch.setattr(precreate, where, lambda *_: signal.pause())
    fork = Mock(side_effect=children_of_daemon.fork)
    monkeypatch.setattr(children_of_daemon, "fork", fork)
    creation = run(A2, fail=fail)
    run.loop.until(lambda: fork.call_count == {"apply": 1, "decode": 2}[where], "no process is forked")
    run.loop.advance(2 - apart.RESERVE - 0.01)
    assert creation.settled is None
    run.loop.advance(0.01)
    late = f"{SAID}a container of {creation.size} bytes: not done in the time of the event"
    assert creation.error == (late if fail else "")
    if not fail:
        assert creation.response == creation.before
