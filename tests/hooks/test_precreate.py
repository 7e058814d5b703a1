"""Precreate hooks, with real programs: what they are given, what is taken from them, and when they fail a container."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from adapter.errors import AdapterError
from adapter.hooks import precreate
from adapter.hooks.match import Named
from adapter.hooks.model import Hook, When
from adapter.job.runner import Runner
from adapter.nri import api
from adapter.process import PATIENCE

from ..processes import Programs, SteppedLoop, children, open_descriptors

ECHO = "cat"
"""A hook that changes nothing."""


def hook(
    programs: Programs,
    name: str,
    script: str,
    *,
    args: tuple[str, ...] = (),
    env: tuple[str, ...] = ("PATH=/usr/bin:/bin",),
    timeout: int | None = None,
) -> Named:
    path = programs.shell(name, script)
    made = Hook(path, args, env, timeout, When(always=True), ("precreate",))
    return Named(f"{name}.json", f"/hooks/{name}.json", made)


def printing(spec: object) -> str:
    return f"cat >/dev/null; printf '%s' {shlex.quote(json.dumps(spec))}"


def edited(by: str) -> str:
    """A script that edits the spec with sed."""
    return f"sed {shlex.quote(by)}"


class Creation:
    """The creation of a container, in two seconds, with a hook of a later stage injected already."""

    def __init__(self, loop: SteppedLoop, *hooks: Named, fail: bool = True, host_root: str = "/") -> None:
        container = api.Container(
            id="c1", name="nginx", args=["sleep"], env=["PATH=/bin", "A=1"], annotations={"note": "x"}
        )
        request = api.CreateContainerRequest(
            pod=api.PodSandbox(id="p", namespace="default", name="web"), container=container
        )
        response = api.CreateContainerResponse()
        response.adjust.hooks.poststop.add(path="/bin/true")
        response.adjust.CDI_devices.add(name="example.com/dev=1")
        response.update.add(container_id="c0")
        self.loop = loop
        self.settled: tuple[api.CreateContainerResponse | None, Exception | None] | None = None
        policy = precreate.Policy(fail, host_root)
        self.runner = Runner(loop)
        edits = precreate.Edits(self.runner, hooks, request, response, policy)
        edits.go()
        edits.answer_by(loop.now + 2)
        edits.answer.then(self._settle)

    def _settle(self, response: Any, error: Exception | None) -> None:
        self.settled = response, error

    def wait(self) -> Creation:
        self.loop.until(lambda: self.settled is not None, "no answer comes")
        return self

    @property
    def error(self) -> str:
        assert self.wait().settled is not None
        _, error = self.settled or (None, None)
        assert error is None or isinstance(error, AdapterError)
        return str(error or "")

    @property
    def response(self) -> api.CreateContainerResponse:
        assert not self.error
        response, _ = self.settled or (None, None)
        assert response is not None
        return response

    @property
    def env(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self.response.adjust.env if not entry.key.startswith("-")}


def test_what_a_hook_changes_becomes_an_adjustment(loop: SteppedLoop, programs: Programs) -> None:
    creation = Creation(loop, hook(programs, "a", edited('s/"A=1"/"A=2","B=3"/; s/"note":"x"/"note":"y"/')))
    assert creation.env == {"A": "2", "B": "3"}
    assert creation.response.adjust.annotations["note"] == "y"


def test_what_was_adjusted_before_stays(loop: SteppedLoop, programs: Programs) -> None:
    response = Creation(loop, hook(programs, "a", ECHO)).response
    adjust = api.ContainerAdjustment(
        hooks=api.Hooks(poststop=[api.Hook(path="/bin/true")]), CDI_devices=[api.CDIDevice(name="example.com/dev=1")]
    )
    assert response.adjust == adjust
    assert [update.container_id for update in response.update] == ["c0"]


def test_a_hook_gets_the_compact_spec_with_the_other_hooks_in_it(loop: SteppedLoop, programs: Programs) -> None:
    creation = Creation(loop, hook(programs, "a", f"tee {programs.path('got')}"))
    assert not creation.error
    text = (programs.folder / "got").read_text()
    spec = json.loads(text)
    assert text == json.dumps(spec, separators=(",", ":"), ensure_ascii=False)
    assert spec["process"]["args"] == ["sleep"]
    assert spec["hooks"]["poststop"] == [{"path": "/bin/true"}]


def test_each_hook_gets_what_the_one_before_has_printed(loop: SteppedLoop, programs: Programs) -> None:
    """Byte for byte, with its white space."""
    first, second = edited('s/"A=1"/ "A=2"/'), edited('s/ "A=2"/"A=3"/')
    assert Creation(loop, hook(programs, "a", first), hook(programs, "b", second)).env == {"A": "3"}


def test_argv_and_environment_are_what_the_file_says_and_nothing_else(loop: SteppedLoop, programs: Programs) -> None:
    script = 'tr "\\0" "\\n" </proc/$$/environ >"$1"; printf "%s\\n" "$@" >>"$1"; cat'
    of = hook(programs, "a", script, args=("name", programs.path("got"), "x y"), env=("PATH=/bin", "A=<b>=c", "D"))
    assert not Creation(loop, of).error
    assert (programs.folder / "got").read_text().splitlines() == [
        *("PATH=/bin", "A=<b>=c"),
        *(programs.path("got"), "x y"),
    ]


ODD = [
    {"env": ("=x", "PATH=/usr/bin:/bin")},
    {"env": ("", "PATH=/usr/bin:/bin")},
    {"env": ("PATH=/nowhere", "PATH=/usr/bin:/bin", "PATH")},
    {"args": ("",)},
    {"args": ("", "x")},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_hook_whose_file_is_odd_runs_as_with_podman(
    loop: SteppedLoop, programs: Programs, odd: dict[str, Any]
) -> None:
    assert Creation(loop, hook(programs, "a", edited('s/"A=1"/"A=2"/'), **odd)).env == {"A": "2"}


@pytest.mark.parametrize("odd", [{"env": ("A=\0",)}, {"args": ("a", "\0")}, {"args": ("x" * 3_000_000,)}], ids=len)
def test_what_cannot_be_passed_to_a_program_fails_the_hook_and_leaks_nothing(
    loop: SteppedLoop, programs: Programs, odd: dict[str, Any]
) -> None:
    before = open_descriptors()
    assert Creation(loop, hook(programs, "a", ECHO, **odd)).error.startswith("precreate hook /hooks/a.json: ")
    assert open_descriptors() == before
    creation = Creation(loop, hook(programs, "a", ECHO, **odd), hook(programs, "b", ECHO), fail=False)
    assert creation.env == {}


def test_without_args_a_hook_is_called_by_its_path(loop: SteppedLoop, programs: Programs) -> None:
    made = Hook("/bin/cat", (), (), None, When(always=True), ("precreate",))
    assert not Creation(loop, Named("a.json", "/hooks/a.json", made)).error


def test_the_program_is_where_the_nodes_files_are(loop: SteppedLoop, programs: Programs) -> None:
    of = hook(programs, "a", edited('s/"A=1"/"A=2"/'))
    inside = of._replace(hook=of.hook._replace(path="/a"))
    assert Creation(loop, inside, host_root=f"{programs.folder}/").env == {"A": "2"}


FAILURES = [
    ("exit 3", "exit code 3"),
    ("echo boom >&2; exit 3", "exit code 3, stderr: 'boom'"),
    ("cat; exit 1", "exit code 1"),  # though it has printed the spec
    ("kill -9 $$", "killed by signal 9"),
    ("exit", "no output"),
    ("cat; echo more", "something behind the JSON value"),
    ("echo '{'", "line 2, column 1: unexpected end"),
    ("echo '[]'", "its output is no object"),
    ("echo null", "its output is no object"),
    (edited('s/"args"/"user":{"uid":7},"args"/'), "process.user"),
    (printing({"process": {"args": ["sleep"], "env": 7}}), "process.env: "),
    (edited('s/"PATH=.bin",//'), "process.env[PATH]: "),
]


@pytest.mark.parametrize(("script", "reason"), FAILURES, ids=[reason for _, reason in FAILURES])
def test_a_hook_that_fails_fails_the_container_by_name(
    loop: SteppedLoop, programs: Programs, script: str, reason: str
) -> None:
    creation = Creation(loop, hook(programs, "a", script), hook(programs, "b", f"touch {programs.path('ran')}; cat"))
    assert creation.error.startswith("precreate hook /hooks/a.json: ")
    assert reason in creation.error
    assert not (programs.folder / "ran").exists()


@pytest.mark.parametrize(("script", "reason"), FAILURES, ids=[reason for _, reason in FAILURES])
def test_where_policy_allows_it_the_container_goes_without_its_edits(
    loop: SteppedLoop, programs: Programs, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    creation = Creation(
        loop,
        hook(programs, "a", edited('s/"A=1"/"A=2"/')),
        hook(programs, "b", script),
        hook(programs, "c", edited('s/"A=2"/"A=3"/')),
        fail=False,
    )
    assert creation.env == {"A": "3"}
    assert "precreate hook /hooks/b.json: " in caplog.text
    assert reason in caplog.text
    assert "(tolerated)" in caplog.text


def test_output_without_end_is_a_failure(loop: SteppedLoop, programs: Programs) -> None:
    creation = Creation(loop, hook(programs, "a", "head -c 2000000 /dev/zero"))
    loop.advance(PATIENCE)
    assert creation.error == "precreate hook /hooks/a.json: no result (more than 1048576 bytes), exit code 0"


def test_a_program_that_cannot_be_started_is_a_failure(loop: SteppedLoop, programs: Programs) -> None:
    of = hook(programs, "a", "")
    (programs.folder / "a").unlink()
    path = programs.path("a")
    assert Creation(loop, of).error == f"precreate hook /hooks/a.json: {path}: No such file or directory"


def reaped(loop: SteppedLoop) -> None:
    """Waits until every hook has been reaped: those that were killed are not waited for by their container."""
    loop.until(lambda: not children(), "hooks are left")


HANG = "exec sleep 1000"


@pytest.mark.parametrize(("timeout", "limit"), [(1, 1.0), (None, 2.0), (60, 2.0)])
def test_a_hook_that_is_not_done_in_its_time_is_killed(
    loop: SteppedLoop, programs: Programs, timeout: int | None, limit: float
) -> None:
    creation = Creation(loop, hook(programs, "a", HANG, timeout=timeout))
    loop.advance(limit - 0.01)
    assert creation.settled is None
    loop.advance(0.01)
    assert creation.error == f"precreate hook /hooks/a.json: no result within {limit:.1f} s"
    reaped(loop)


def test_for_a_hook_behind_one_that_took_all_the_time_none_is_left(
    loop: SteppedLoop, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    creation = Creation(loop, hook(programs, "a", HANG), hook(programs, "b", ECHO), fail=False)
    loop.advance(2)
    assert creation.env == {}
    assert "precreate hook /hooks/b.json: no time was left (tolerated)" in caplog.text
    reaped(loop)


def test_what_it_says_on_stderr_is_logged(
    loop: SteppedLoop, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert not Creation(loop, hook(programs, "a", "echo hello >&2; cat")).error
    assert "a.json: stderr: hello" in caplog.text


def test_a_failure_is_told_with_the_container_and_counts_with_the_runs_of_the_hook(
    loop: SteppedLoop, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    creation = Creation(loop, hook(programs, "a", "exit 1"))
    assert creation.error == "precreate hook /hooks/a.json: exit code 1"
    assert f"creation of container default/web/nginx (c1): {creation.error}" in caplog.text
    assert {name: (account.runs, account.failures) for name, account in creation.runner.accounts.items()} == {
        "a.json": (1, 1)
    }


def test_what_the_runtime_does_not_know_is_refused(loop: SteppedLoop, programs: Programs) -> None:
    of = hook(programs, "a", edited('s/"args":."sleep"./"args":["true"]/'))
    assert Creation(loop, of).error.startswith(
        "precreate hook /hooks/a.json: process.args: needs NRI 0.10.0, the runtime has 0.8.0"
    )


def test_a_hook_behind_one_that_was_late_is_not_late_itself(loop: SteppedLoop, programs: Programs) -> None:
    first = hook(programs, "a", HANG, timeout=1)
    creation = Creation(loop, first, hook(programs, "b", edited('s/"A=1"/"A=2"/')), fail=False)
    loop.advance(1)
    assert creation.env == {"A": "2"}
    reaped(loop)


def test_a_bug_that_its_output_meets_fails_the_hook(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(*_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("adapter.gojson.plain", stumble)
    creation = Creation(loop, hook(programs, "a", ECHO))
    assert "its result meets a bug of the adapter" in creation.error
    assert "KeyError" in caplog.text
