"""The peers as Python objects: a real runtime to play events on, and the original client, to ask what it would send."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from tests.rig.debian import missing
from tests.rig.programs import Programs
from tests.rig.waiting import limit

from .build import NEWEST, PeerMissing, peer

PATIENT: dict[str, Any] = {"registration_timeout_ms": 60_000, "request_timeout_ms": 60_000}
"""Limits of a runtime that waits longer than a machine stands still."""
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
NAME = "00-v010-adapter"
COMMAND = Path(sys.executable).parent / "v010-adapter"
LEGACY_EVENTS = {  # the events that the original had, and what its requests call them
    **dict.fromkeys(("RunPodSandbox", "StartContainer"), "create"),
    **dict.fromkeys(("StopContainer", "StopPodSandbox"), "delete"),
}
PLAIN_ANSWER = b'{"plugin":"%s","version":"0.1","error":"","metadata":{"k":"v"}}'  # of the oracle's plugins
_missing: dict[str, str] = {}  # by version: the proxy is asked once


def require(name: str, version: str = NEWEST) -> Path:
    """Return the program's path; the test that asks is skipped where it cannot be had, or fails if REQUIRE_PEERS=1."""
    try:
        if version in _missing:
            raise PeerMissing(_missing[version])
        return peer(name, version)
    except PeerMissing as reason:
        _missing[version] = str(reason).splitlines()[-1]
        missing(f"{name} for NRI {version}: {_missing[version]}")


class Peer:
    """A Go program that answers each line of JSON with another: `with Peer("oracle") as peer: peer.ask(case)`."""

    def __init__(self, name: str, version: str = NEWEST, *arguments: str, log: IO[str] | None = None) -> None:
        command, pipe = [str(require(name, version)), *arguments], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the program as its input does; it is killed if it does not."""
        try:
            with limit(f"{self.process.args!r} does not end"):
                self.process.communicate()
        finally:
            self.process.kill()
            self.process.wait()

    def ask(self, case: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        with limit(f"{self.process.args!r} does not answer"):
            print(json.dumps(case, default=str), file=self.process.stdin)
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Plugin(NamedTuple):
    name: str
    pid: int
    events: int
    fail_request: bool
    keep_connected: bool


class Call(NamedTuple):
    """One ttRPC request as it went to a plugin; `bytes` is the message without its header."""

    method: str
    bytes: int
    us: float
    error: str


@dataclass(frozen=True)
class Reply:
    """What became of an op. `plugins` are those connected afterwards."""

    error: str = ""
    plugins: Sequence[Plugin] = ()
    us: float = 0
    adjust: Mapping[str, Any] | None = None
    update: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[str] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    calls: Sequence[Call] = ()
    updates: Sequence[Sequence[Mapping[str, Any]]] = ()

    @classmethod
    def read(cls, known: dict[str, Any]) -> Self:
        known["plugins"] = [Plugin(**p) for p in known["plugins"] or ()]
        known["calls"] = [Call(**c) for c in known.get("calls", ())]
        return cls(**known)

    @property
    def names(self) -> list[str]:
        """NN-NAME of the plugins that are connected."""
        return [p.name for p in self.plugins]


class GoRuntime:
    """A host of NRI's adaptation in a process of its own: `open` it, then play "start", then events."""

    def __init__(self, directory: Path, version: str = NEWEST) -> None:
        self.directory = directory
        self.version = version
        self.log = directory / "runtime.log"
        self.socket = directory / "nri.sock"
        self._folders: list[int] = []

    def __enter__(self) -> Self:
        with self.log.open("w") as log:
            self._peer = Peer("runtime", self.version, log=log)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is not None:
            print(self.log.read_text()[-4000:])  # pytest shows it with the failure

    def close(self) -> None:
        try:
            self._peer.close()
        finally:
            while self._folders:
                os.close(self._folders.pop())

    def kill(self) -> None:
        self._peer.process.kill()

    def play(self, op: str, **fields: object) -> Reply:
        """Do an op (cmd/runtime/ops.go lists them) and return what became of it."""
        return Reply.read(self._peer.ask({"op": op, **fields}))

    def open(
        self,
        plugin: Path | None = None,
        config: str | None = None,
        *,
        name: str = NAME,
        host: str = "",
        runtime: tuple[str, str] = ("containerd", "1.7.35"),
        **fields: object,
    ) -> None:
        plugins, drop_ins = self.directory / f"plugins{host}", self.directory / f"conf.d{host}"
        for directory in (plugins, drop_ins):
            directory.mkdir()
        if plugin:
            (plugins / name).symlink_to(plugin)
        socket = fields.pop("socket", None if plugin else self.socket)
        if isinstance(socket, Path):
            # By a short name, as Go knows no other: TMPDIR may be longer than a socket's address.
            folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY)
            self._folders.append(folder)
            fields["socket"] = f"/proc/{os.getpid()}/fd/{folder}/{socket.name}"
        if plugin == COMMAND and config != "":
            config = f"{config or ''}state: {{directory: {self.directory}/state{host}}}\n"
        if config:
            (drop_ins / f"{name}.conf").write_text(config)
        done = self.play(
            "open", host=host, plugin_dir=plugins, drop_in_dir=drop_ins, name=runtime[0], version=runtime[1], **fields
        )
        assert not done.error, done.error

    def event(self, event: str, pod: object, container: object = None, **fields: object) -> Reply:
        return self.play("event", event=event, pod=pod, container=container, **fields)

    @contextmanager
    def impatient(self, milliseconds: int) -> Iterator[None]:
        self.play("limit", request_timeout_ms=milliseconds)
        try:
            yield
        finally:
            self.play("limit", **PATIENT)


class Outcome(NamedTuple):
    """What the original client did in one case: the plugins it ran, the bytes each of them read, its error."""

    plugins: Sequence[str]
    requests: Sequence[bytes]
    error: str


@dataclass(frozen=True)
class Case:
    """One event for the original client. `conf`: a conf.json of its own; `answers`: what plugins print, by type."""

    state: str
    pod: Mapping[str, Any]
    container: Mapping[str, Any] | None = None
    conf: bytes | None = None
    answers: Mapping[str, bytes] = field(default_factory=dict)

    def encode(self) -> dict[str, Any]:
        def text(of: bytes) -> str:
            return base64.b64encode(of).decode()

        answers = {name: text(answer) for name, answer in self.answers.items()}
        return {**vars(self), "conf": None if self.conf is None else text(self.conf), "answers": answers}


class Oracle(Peer):
    """The original client: `with Oracle() as oracle`."""

    def __init__(self, conf: Path | None = None) -> None:
        super().__init__("oracle", NEWEST, *(["-conf", str(conf)] if conf else []))

    def outcomes(self, cases: Iterable[Case]) -> list[Outcome]:
        told = [self.ask(case.encode()) for case in cases]
        return [Outcome(one["plugins"], [*map(base64.b64decode, one["requests"])], one["error"]) for one in told]


class Recorded(NamedTuple):
    """One event of a pod's life as a runtime sent it: pod and container as protojson."""

    event: str
    pod: Mapping[str, Any]
    container: Mapping[str, Any] | None
    extra: Mapping[str, Any] | None


def golden(source: str = "*") -> list[Recorded]:
    """Every recorded pod or container event, or those of one runtime."""
    paths = sorted(GOLDEN.glob(f"{source}/events-one-pod.jsonl"))
    lines = [json.loads(line) for path in paths for line in path.read_text().split("\n")[:-1]]
    return [Recorded(of["event"], of["pod"], of["container"], of.get("extra")) for of in lines if of["pod"]]


LIFE = golden("containerd-2.4.2")
POD = LIFE[0].pod
CONTAINER = next(recorded.container for recorded in LIFE if recorded.container)


class Chain:
    """Legacy plugins in a directory of their own: each notes the requests it gets, then does what its script says."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bin = directory / "bin"
        self.conf = directory / "conf.json"
        self._entries: list[dict[str, object]] = []
        self.bin.mkdir()
        self._write()

    def add(self, name: str, script: str = "", conf: object = None) -> Self:
        """Put a plugin at the end. Its script is shell, by default it prints a plain success."""
        script = script or f"""printf '%s' '{(PLAIN_ANSWER % name.encode()).decode()}'"""
        Programs(self.bin).shell(name, f"{{ cat; echo; }} >> '{self._notes(name)}'\n{script}")
        self._entries.append({"type": name, **({"conf": conf} if conf else {})})
        self._write()
        return self

    def requests(self, name: str) -> list[bytes]:
        notes = self._notes(name)
        return notes.read_bytes().split(b"\n")[:-1] if notes.exists() else []

    def clear(self) -> None:
        for entry in self._entries:
            self._notes(str(entry["type"])).unlink(missing_ok=True)
        self._entries.clear()
        self._write()

    @property
    def settings(self) -> str:
        """The adapter's configuration that runs this chain."""
        return f"legacy:\n  config: {self.conf}\n  path: [{self.bin}]\n"

    def _notes(self, name: str) -> Path:
        return self._directory / f"{name}.requests"

    def _write(self) -> None:
        self.conf.write_text(json.dumps({"version": "0.1", "plugins": self._entries}))


class Host(NamedTuple):
    """A runtime that has launched the adapter, for the tests of a module that leave it as it was; and the chain."""

    runtime: GoRuntime
    chain: Chain


@contextmanager
def launched(
    chain: Chain,
    directory: Path,
    version: str = NEWEST,
    settings: str = "",
    state: Mapping[str, int] | None = None,
    **fields: Any,
) -> Iterator[GoRuntime]:
    """A host that has launched the adapter from its plugin directory."""
    with GoRuntime(directory, version) as runtime:
        runtime.open(COMMAND, chain.settings + settings, **PATIENT, **fields)
        runtime.play("state", **(state or {}))
        started = runtime.play("start")
        assert (started.error, started.names) == ("", [NAME])
        yield runtime


def play(runtime: GoRuntime, recorded: Recorded) -> None:
    resources = (recorded.extra or {}).get("linux_resources")
    reply = runtime.event(recorded.event, recorded.pod, recorded.container, resources=resources)
    assert (recorded.event, reply.error, reply.names) == (recorded.event, "", [NAME])
