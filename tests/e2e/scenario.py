"""One run in namespaces of its own: a fresh runtime launches the adapter, a pod lives and dies, the evidence is judged.

`python -m tests.e2e.scenario RUNTIME SETUP NODE` is started by `tests.e2e` under unshare(1), so that the node's /etc,
/opt, /run and /dev (NODE: its mount namespace) are not touched and nothing outlives the run. It prints what ran and
what was found: {"ran": …, "findings": […]}.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.e2e import (
    adjusting,
    around_holds,
    bounded_hooks,
    build,
    docker,
    guarded,
    guides,
    held,
    held_kills,
    holding,
    hooks,
    large,
    tracing,
)
from tests.e2e.checks import Call, Evidence, errors, judge
from tests.e2e.launched import Launched, Syslog
from tests.e2e.pod import STATE, Cri, HarnessError, command, until
from tests.e2e.runtimes import PATH, Containerd, Crio, Runtime
from tests.peers.build import peer

ALL: list[Runtime] = [
    *(Containerd(build.containerd(version)) for version in ("1.7.35", "2.0.14", "2.2.1", "2.3.4", "2.4.2")),
    Containerd(build.containerd("2.4.2"), "crun"),
    *(Crio(build.crio(version), oci) for version in ("1.34.0", "1.36.3") for oci in ("runc", "crun")),
    docker.Docker(build.dockerd("v2.0.0-beta.24")),
]
REPOSITORY = Path(__file__).resolve().parents[2]
ADAPTER = Path(os.environ.get("E2E_ADAPTER") or Path(sys.executable).with_name("v010-adapter"))
SETUPS = {
    "etc": Path("/etc/nri/conf.json"),
    "own": Path("/etc/nri/legacy/conf.json"),
    "adjusting": adjusting.PROGRAM.relative_to(REPOSITORY),
    "guarded": Path("/etc/nri/guarded/conf.json"),
    "large": large.CONF,
    "hooks": hooks.HOOKS,
    "held": held.CONF,
    "around-holds": held.CONF,
    "held-kills": held_kills.CONF,
    "holding": holding.PLUGIN,
    "traced": tracing.CONF,
    "docker": docker.PROGRAM.relative_to(REPOSITORY),
    **{guide: page.relative_to(REPOSITORY) for guide, page in guides.GUIDES.items()},
}
"""Where the legacy plugins are configured: where everybody looks, or in a file that only the adapter knows of. Or a
plugin and hooks that adjust containers, or large ones. Or hooks that print, fail and hang. Or legacy plugins, while the
adapter, which the runtime has launched, and the runtime are killed and come back. Or a plugin of the stub alone. Or
legacy plugins that take long. Or what a guide starts from.
"""
MOUNTS = "/proc/self/ns/mnt"
LAUNCHED = Path("/opt/nri/plugins/00-v010-adapter")
STATE_SETTINGS = f"state: {{directory: {STATE}/adapter}}\n"
SERVICE_SETTINGS = Path("/etc/nri/v010-adapter.yaml")
EVENTS, CALLS, DUMPS = STATE / "events.jsonl", STATE / "calls.jsonl", STATE / "dump"


def isolate() -> None:
    """Puts a writable layer over the node's folders that a run writes to, in this mount namespace alone."""
    os.umask(0o022)  # the adapter trusts nothing that others may write to
    command("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    terminals = STATE / "pts"
    terminals.mkdir(parents=True)
    command("mount", "--bind", "/dev/pts", str(terminals))
    for folder in ("/etc", "/opt", "/dev", "/usr/local/bin", "/usr/share"):
        upper, work = STATE / f"layers{folder}/upper", STATE / f"layers{folder}/work"
        upper.mkdir(parents=True)
        work.mkdir()
        command("mount", "-t", "overlay", "e2e", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", folder)
    command("mount", "--bind", str(terminals), "/dev/pts")
    for folder in ("/etc/nri", "/opt/nri"):  # without what the node may have there
        os.makedirs(folder, exist_ok=True)
        command("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for program in (file for folder in PATH.split(":") for file in Path(folder).glob("python3*")):
        if not program.samefile(sys.executable):  # a bundle needs no python, nor does the rest
            command("mount", "--bind", "/dev/null", str(program))


def install(settings: str) -> None:
    """Installs the adapter as an administrator does, and its settings."""
    for folder in (LAUNCHED.parent, Path("/etc/nri/conf.d")):
        folder.mkdir(parents=True, exist_ok=True)
    LAUNCHED.symlink_to(ADAPTER)
    Path(f"/etc/nri/conf.d/{LAUNCHED.name}.conf").write_text(STATE_SETTINGS + settings)


def install_legacy(conf: Path, *more: tuple[str, str]) -> str:
    """Installs two legacy plugins, behind more of them by name and text; returns conf.json's text."""
    legacy = Path("/opt/nri/bin")
    for folder in (legacy, conf.parent):
        folder.mkdir(parents=True, exist_ok=True)
    (legacy / "dump").symlink_to(REPOSITORY / "legacy-plugins/dump")
    witness = shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("witness.py")), str(CALLS)])
    for name, text in (*more, ("witness", f"#!/bin/sh\nexec {witness}\n")):
        (legacy / name).write_text(text)
        (legacy / name).chmod(0o755)
    entries: list[dict[str, object]] = [{"type": name} for name, _ in more]
    entries += [{"type": "dump", "conf": {"directory": str(DUMPS), "hello": "world", "n": 1}}, {"type": "witness"}]
    conf.write_text(json.dumps({"version": "0.1", "plugins": entries}))
    return conf.read_text()


def processes() -> dict[int, str]:
    """The command lines of all processes of the run but the harness itself and those that only wait to be reaped."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if line and int(entry.name) not in (1, os.getpid()):  # a zombie has no command line any more
                found[int(entry.name)] = line
    return found


def leave_nothing() -> list[str]:
    """Waits until nothing of the runtime is left; kills and returns what does not go by itself."""
    left: dict[int, str] = {}
    try:
        until(lambda: not processes(), "the processes of the runtime to end", 60)
    except HarnessError:
        left = processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    remove_cgroups()
    return list(left.values())


def remove_cgroups() -> None:
    """Removes the pod's parent cgroups, which runtimes leave to the kubelet; the one thing here that is the node's."""
    cgroups = Path("/sys/fs/cgroup")
    for parent in (*cgroups.glob("e2e/p1"), *cgroups.glob("*/e2e/p1")):  # v2, and the controllers of v1
        for folder in (parent, parent.parent):
            with suppress(OSError):  # another run has pods in it
                folder.rmdir()


class Run(NamedTuple):
    """A run with the adapter as the only NRI plugin."""

    ran: str
    prepare: Callable[[Runtime], object]
    play: Callable[[Runtime, Syslog], Iterator[str]]
    """Starts the runtime; yields what is wrong."""
    expected: Callable[[Runtime], Sequence[str]] = lambda _: ()  # texts of errors in the log that are faults of the run


def launched(settings: str, play: Callable[[Runtime, Cri, Launched], Iterator[str]]) -> Callable[..., Iterator[str]]:
    def whole(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
        install(settings)
        cri = runtime.start()
        until(lambda: syslog.has("registered with"), "the adapter to be registered")
        yield from play(runtime, cri, Launched(syslog))

    return whole


def play_docker(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
    """Docker has no CRI."""
    assert isinstance(runtime, docker.Docker)
    install(docker.SETTINGS)
    runtime.start_without_cri()
    until(lambda: syslog.has("registered with"), "the adapter to be registered")
    yield from docker.play()
    if syslog.count(docker.SILENT) != 1:
        yield f"the adapter has logged {syslog.count(docker.SILENT)} times that {docker.SILENT}"


def play_traced(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
    install(tracing.SETTINGS)
    yield from tracing.play(runtime, syslog)


def play_bounded_hooks(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
    with bounded_hooks.journal():
        started = launched(bounded_hooks.SETTINGS, lambda of, cri, _: bounded_hooks.play(cri, syslog, of))
        yield from started(runtime, syslog)


def play_held_kills(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
    if held_kills.FORM == "launched":
        install(held_kills.SETTINGS)
    else:
        SERVICE_SETTINGS.write_text(STATE_SETTINGS + held_kills.SETTINGS)
    yield from held_kills.play(runtime.start(), syslog, ADAPTER)


def of_guide(guide: str) -> Run:
    has_legacy = guide in ("installing", "on-k3s", "without-list", "from-adapter", "from-1.6")
    return Run(
        "the commands of the guide",
        lambda _: has_legacy and install_legacy(SETUPS["etc"]),
        lambda runtime, syslog: guides.PLAYS[guide](guides.Guided(runtime, syslog.has, calls)),
    )


RUNS = {
    "adjusting": Run(
        "a plugin and a precreate hook that adjust containers",
        lambda _: adjusting.prepare(),
        launched(adjusting.SETTINGS, lambda of, cri, _: adjusting.play(cri, of.takes_every_adjustment)),
        lambda runtime: () if runtime.takes_every_adjustment else (adjusting.REFUSED,),
    ),
    "guarded": Run(
        f"{guarded.PODS} pods while the launched adapter is killed",
        lambda _: install_legacy(SETUPS["guarded"], ("sleeper", guarded.SLEEPER)),
        launched(
            guarded.SETTINGS % SETUPS["guarded"],
            lambda runtime, cri, adapter: guarded.play(cri, adapter, runtime, calls),
        ),
        lambda _: guarded.EXPECTED,
    ),
    "large": Run(
        f"{large.CONTAINERS} large containers between ordinary ones",
        lambda _: large.prepare(),
        launched(large.SETTINGS, lambda runtime, cri, _: large.play(cri, runtime)),
        lambda _: (large.REFUSED,),
    ),
    "hooks": Run(
        f"{bounded_hooks.PODS * bounded_hooks.CONTAINERS} containers with hooks that print; hooks that fail or hang",
        lambda _: bounded_hooks.prepare(),
        play_bounded_hooks,
    ),
    "held": Run(
        "containers whose legacy plugin takes longer than the runtime waits",
        lambda _: held.prepare(install_legacy),
        launched(held.SETTINGS, held.play),
        lambda _: held.EXPECTED,
    ),
    "around-holds": Run(
        "what else may happen while a container is held",
        lambda _: held.prepare(install_legacy),
        launched(held.SETTINGS, around_holds.play),
        lambda _: around_holds.EXPECTED,
    ),
    "held-kills": Run(
        f"{held_kills.KILLS} kills of an adapter that holds containers",
        lambda _: held_kills.prepare(),
        play_held_kills,
        lambda _: held_kills.EXPECTED,
    ),
    "holding": Run(
        "containers whose start a plugin holds",
        lambda _: holding.prepare(),
        launched(holding.SETTINGS, lambda runtime, cri, _: holding.play(runtime, cri)),
    ),
    "traced": Run(
        "a runtime that traces, and the span of each event",
        lambda _: install_legacy(tracing.CONF, tracing.PLUGIN),
        play_traced,
        lambda _: (tracing.REFUSED,),
    ),
    "docker": Run(
        "containers that a plugin adjusts, or fails",
        lambda _: docker.prepare(),
        play_docker,
        lambda _: (docker.REFUSED,),
    ),
    **{guide: of_guide(guide) for guide in guides.GUIDES},
}


def run_alone(runtime: Runtime, setup: str) -> dict[str, object]:
    run, syslog = RUNS[setup], Syslog()
    run.prepare(runtime)
    try:
        findings = list(run.play(runtime, syslog))
        runtime.stop()
    except HarnessError as error:
        findings = [str(error), *syslog.lines[-10:], *runtime.last_words()]
    findings += [f"left behind: {process}" for process in leave_nothing()]
    log = syslog.close()
    findings, expected = [*findings, *errors(log)], run.expected(runtime)
    return {"ran": run.ran, "findings": [one for one in findings if not any(text in one for text in expected)]}


def run_with_recorder(runtime: Runtime, setup: str) -> dict[str, object]:
    """A pod lives and dies; a second NRI plugin records what the runtime tells."""
    conf, syslog = SETUPS[setup], Syslog()
    install(f"legacy: {{config: {conf}}}\n" if setup != "etc" else "")
    (LAUNCHED.parent / "99-recorder").symlink_to(peer("recorder"))
    Path("/etc/nri/conf.d/99-recorder.conf").write_text(str(EVENTS))
    evidence = Evidence(runtime, runtime.serves_sandboxes_itself(conf), install_legacy(conf))
    findings = []
    try:
        cri = runtime.start()
        until(lambda: happened("Synchronize"), "the recorder to be registered")
        evidence.pod = cri.live_and_die(lambda: happened("StopContainer"))
        until(lambda: happened("RemovePodSandbox"), "the pod's RemovePodSandbox event")
        evidence.adapter_alive = any(str(LAUNCHED) in line for line in processes().values())
        evidence.runtime_log = runtime.log.read_text(errors="replace")  # at its end it says goodbye to its plugins
        runtime.stop()
    except HarnessError as error:
        findings = [str(error), *runtime.last_words()]
    evidence.leftovers, evidence.events = leave_nothing(), events()
    evidence.log, evidence.calls = syslog.close(), calls()
    callers = Counter("runtime" if call.by_runtime else "adapter" for call in evidence.calls["witness"])
    requests = ", ".join(f"{count} by {caller}" for caller, count in sorted(callers.items()))
    return {"ran": f"requests: {requests or 'none'}; judged by oracle", "findings": findings + judge(evidence)}


def events() -> list[dict[str, object]]:
    return [json.loads(line) for line in EVENTS.read_text().splitlines()] if EVENTS.exists() else []


def happened(event: str) -> bool:
    return any(recorded["event"] == event for recorded in events())


def calls() -> dict[str, list[Call]]:
    witnessed = map(json.loads, CALLS.read_text().splitlines() if CALLS.exists() else [])
    return {
        "dump": [Call.of(path.read_text(), path) for path in sorted(DUMPS.glob("*.json"))],
        "witness": [Call.of(call.pop("request"), **call) for call in witnessed],
    }


if __name__ == "__main__":
    if os.readlink(MOUNTS) == sys.argv[3]:
        sys.exit("this would mount things over the node's own folders: run tests.e2e instead")
    chosen = next(runtime for runtime in ALL if runtime.name == sys.argv[1])
    isolate()
    print(json.dumps((run_alone if sys.argv[2] in RUNS else run_with_recorder)(chosen, sys.argv[2])))
