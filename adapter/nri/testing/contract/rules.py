"""The rules of the contract between a runtime and its plugins, as data, and the verdicts about one plugin."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Rule(NamedTuple):
    """A rule: what a runtime relies on, and what it does if a plugin breaks the rule."""

    name: str
    holds: str
    """What holds of a plugin that keeps the rule."""
    situation: str
    """What is played."""
    otherwise: str
    """What a runtime does if the rule is broken."""
    source: str
    """The code of a runtime, or a documented contract."""


class Result(StrEnum):
    """What a verdict says."""

    HOLDS = "holds"
    FAILS = "fails"
    DOES_NOT_APPLY = "does not apply"


class Verdict(NamedTuple):
    """The verdict about one plugin by one rule."""

    rule: Rule
    result: Result
    sent: str = ""
    """What was sent, if the rule fails."""
    came: str = ""
    """What came, if the rule fails; why the rule does not apply."""

    def lines(self) -> list[str]:
        """Returns what is said about a failure."""
        rule = self.rule
        return [
            f"rule: {rule.holds}",
            f"sent: {self.sent}",
            f"came: {self.came}",
            f"then: {rule.otherwise}",
            f"source: {rule.source}",
        ]

    def __repr__(self) -> str:
        """Returns what an assertion on a report shows."""
        if self.result is not Result.FAILS:
            return f"<{self.rule.name}: {self.result}>"
        return "\n    ".join([f"<{self.rule.name} FAILS", *self.lines()]) + ">"


class Note(NamedTuple):
    """Something worth knowing about a plugin that neither a runtime's code nor a documented contract forbids."""

    subject: str
    text: str


Finding = Verdict | Note
"""What a situation yields."""

_NRI = "NRI 0.12.5, pkg/adaptation"
_CONTAINERD = "containerd 2.4.2, internal/nri/nri.go"
_CRI = "containerd 2.4.2, internal/cri/nri/nri_api_linux.go"
_CRIO = "CRI-O 1.36.3"
_DROPPED = "the runtime closes the connection, kills a launched plugin, and goes on without it"

_RULES = (
    Rule(
        "registers",
        "The plugin registers within the registration timeout (5 s) after its start.",
        "a start, as the runtime starts",
        "the runtime closes the connection, kills a launched plugin, and logs `plugin registration timed out`",
        f"{_NRI}/plugin.go: start",
    ),
    Rule(
        "valid-name",
        "A plugin that connects by itself registers with an index of two digits, and a name of A-Z a-z 0-9 - _ . +",
        "a start, as a service starts the plugin",
        "the runtime refuses the registration; it ignores the name of a plugin that it has launched",
        f"{_NRI}/plugin.go: RegisterPlugin; pkg/api/plugin.go: CheckPluginName, CheckPluginIndex",
    ),
    Rule(
        "takes-configuration",
        "The plugin takes its configuration: the text of -config, empty without one.",
        "Configure, with a NRI version since 0.12 only",
        _DROPPED,
        f"{_NRI}/plugin.go: configure",
    ),
    Rule(
        "known-events",
        "The plugin subscribes only to events that the runtime knows.",
        "Configure; NRI 0.8 knows the events 1 to 11, CRI-O 1.34 1 to 13, NRI since 0.10 1 to 14",
        f"`invalid plugin events`: {_DROPPED}",
        f"{_NRI}/plugin.go: configure",
    ),
    Rule(
        "synchronizes",
        "The plugin answers a Synchronize without pods and containers.",
        "Synchronize on an empty node",
        _DROPPED,
        f"{_NRI}/plugin.go: synchronize",
    ),
    Rule(
        "synchronizes-in-parts",
        "The plugin answers each part of a Synchronize but the last with `more` and without updates.",
        "Synchronize with 2,000 pods and 10,000 containers, 1,000 in a message",
        f"`plugin does not handle split sync requests`: {_DROPPED}",
        f"{_NRI}/plugin.go: synchronize",
    ),
    Rule(
        "answers-events",
        "The plugin implements each event to which it is subscribed, and its answers are decodable.",
        "the life of a pod with one container; before NRI 0.12, most events are StateChange",
        "an unimplemented event fails for each pod and container; a lost connection drops the plugin",
        f"{_NRI}/plugin.go: handleRequestError; plugin_type.go",
    ),
    Rule(
        "unknown-call",
        "The plugin answers a call that it does not know with the status UNIMPLEMENTED (12), and stays connected.",
        "the call FutureEvent",
        "NRI since 0.12 sends StateChange only after UNIMPLEMENTED; any other error fails the event",
        f"{_NRI}/plugin_type.go: wrapOrigImpl",
    ),
    Rule(
        "unknown-fields",
        "The plugin takes messages with fields that its version of NRI does not have.",
        "the life of a pod, each message with an additional field 1000",
        "newer runtimes send newer fields: all events fail",
        "Protocol Buffers, language guide (proto 3): unknown fields; NRI since 0.12 sends ConfigureRequest.NRI_version",
    ),
    Rule(
        "sparse-messages",
        "The plugin survives a container without resources, env, mounts, labels; a pod without linux, namespace.",
        "the events of such a container",
        _DROPPED,
        f"{_CRI}: nriPodSandbox, of a pod that is gone; Docker 29, daemon/internal/nri/nri.go: containerToNRI",
    ),
    Rule(
        "extreme-values",
        "The plugin survives numbers at the limits of 64 bits, empty texts, and any Unicode in texts.",
        "the events of a container with such resources, annotations, labels, env and args",
        _DROPPED,
        "NRI 0.12.5, pkg/api/api.proto: the types of the fields; runtimes pass on what the Kubernetes API accepted",
    ),
    Rule(
        "large-message",
        "The plugin survives a container of almost 4 MiB.",
        "the events of a container whose env has 3.9 MiB",
        _DROPPED,
        "ttrpc 1.2.7, channel.go: messageLengthMax is 4 MiB",
    ),
    Rule(
        "failed-create",
        "The plugin survives a container that is stopped and removed without a start, and comes again with a new id.",
        "CreateContainer, StopContainer, RemoveContainer, CreateContainer with a new id",
        _DROPPED,
        f"{_CRI}: UndoCreateContainer; {_CRIO}, server/nri-api.go: undoCreateContainer",
    ),
    Rule(
        "stop-after-pod",
        "The plugin survives StopContainer after StopPodSandbox, with a pod of which only the id is known.",
        "StopPodSandbox, then StopContainer with a pod with an id alone",
        _DROPPED,
        f"{_CRI}: NotifyContainerExit, which does not wait for its turn",
    ),
    Rule(
        "repeated-stop",
        "The plugin survives a second StopPodSandbox of the same pod.",
        "StopPodSandbox twice",
        _DROPPED,
        f"{_CRIO}, server/sandbox_stop_linux.go: stopPodSandbox, if a later plugin has refused the first",
    ),
    Rule(
        "unknown-container",
        "The plugin survives the removal of a container that neither Synchronize nor CreateContainer has named.",
        "RemoveContainer after the start of the plugin",
        _DROPPED,
        f"{_CRI}: ListContainers leaves out exited containers, whose removal is reported",
    ),
    Rule(
        "interleaved-containers",
        "The plugin survives two containers of one pod whose events alternate.",
        "each event of a container's life, for one container, then for the other",
        _DROPPED,
        f"{_CONTAINERD}: the lock is held for one event at a time",
    ),
    Rule(
        "answers-in-time",
        "Each answer comes within the request timeout (2 s); all parts of a Synchronize share one.",
        "all situations",
        "the event goes on without the plugin, which is dropped (NRI 0.12.4 can keep it, no released runtime has that)",
        f"{_NRI}/plugin.go: handleRequestError, synchronize",
    ),
    Rule(
        "merges",
        "The plugin's own adjustment has no conflict with itself, and does not update the container that is created.",
        "CreateContainer, UpdateContainer and StopContainer; the answers are merged as by a runtime",
        "`both tried to set`, `asked update of … during creation`: the event fails",
        f"{_NRI}/result.go; pkg/api/owners.go",
    ),
    Rule(
        "crashes-no-runtime",
        "The adjustment has nothing over which the runtime crashes: a sysctl, or a seccomp policy with an errnoRet.",
        "CreateContainer, under a runtime with NRI 0.10 or 0.11",
        "the runtime panics; it does so again at the next such container",
        "NRI 0.11.0, pkg/adaptation/result.go: adjustSysctl; pkg/api/seccomp.go: ToOCILinuxSyscalls",
    ),
    Rule(
        "changes-are-applied",
        "The adjustment and the updates have nothing that the runtime drops without a word.",
        "CreateContainer, UpdateContainer and StopContainer",
        "the container runs without the change",
        "NRI 0.8.0 to 0.12.5, pkg/adaptation/result.go; pkg/runtime-tools/generate/generate.go: AdjustResources",
    ),
    Rule(
        "lets-pods-stop",
        "The plugin answers StopPodSandbox without an error.",
        "all situations, under CRI-O",
        "CRI-O fails the call, and the kubelet repeats it: the pod stays in Terminating. containerd logs the error",
        f"{_CRIO}, server/sandbox_stop_linux.go: stopPodSandbox",
    ),
    Rule(
        "updates-do-not-block",
        "The plugin's answer to an event does not wait for the answer to its own UpdateContainers.",
        "all situations; UpdateContainers is answered when the event is over",
        "the plugin waits for the lock that the event holds: it is late, and dropped",
        f"{_CONTAINERD}: updateFromPlugin; {_CRIO}, internal/nri/nri.go: updateFromPlugin",
    ),
    Rule(
        "refused-updates",
        "The plugin survives the error of an UpdateContainers, as after the end of the container.",
        "the life of a pod; UpdateContainers is answered with an error",
        _DROPPED,
        "containerd 2.4.2, internal/nri/domain.go: updateContainers",
    ),
    Rule(
        "ends-with-connection",
        "The plugin ends within 10 s of the end of its connection; one that connects by itself may join again instead.",
        "the runtime closes the connection, as when it is killed and restarted",
        "the restarted runtime launches a second instance; one that connects by itself is missing on the node",
        f"{_NRI}/plugin.go: newLaunchedPlugin; containerd 2.4.2, containerd.service: KillMode=process",
    ),
    Rule(
        "starts-before-runtime",
        "A plugin that connects by itself and finds no socket ends, or connects within 10 s after the socket appears.",
        "a start of the plugin before the runtime's",
        "the plugin is missing on the node: nothing starts a program again that has not ended",
        "systemd.service(5): Restart=; Kubernetes, Pod Lifecycle: container restarts",
    ),
)

RULES = {rule.name: rule for rule in _RULES}
"""The rules by name, in the order in which they are judged."""


def holds(name: str) -> Verdict:
    """Returns the verdict that the plugin keeps the rule."""
    return Verdict(RULES[name], Result.HOLDS)


def fails(name: str, sent: str, came: str) -> Verdict:
    """Returns the verdict that the plugin breaks the rule."""
    return Verdict(RULES[name], Result.FAILS, sent, came)


def does_not_apply(name: str, why: str) -> Verdict:
    """Returns the verdict that the rule says nothing about the plugin."""
    return Verdict(RULES[name], Result.DOES_NOT_APPLY, came=why)
