"""`Adjustment` makes the messages that the methods of NRI's Go package make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import ParseDict

from nri import Adjustment, api

from .harness import Peer


def hooks(adjust: Adjustment) -> None:
    adjust.hooks.add("create_runtime", "/bin/a", ["a", "b"], ["A=1"], timeout=10)
    adjust.hooks.add("poststop", "/bin/b")


def removals(adjust: Adjustment) -> None:
    del adjust.annotations["a"]
    del adjust.mounts["/data"]


def assign(of: str, value: object) -> Callable[[Adjustment], None]:
    """Assigns to `cpu.shares` or `env[A]`."""
    path, _, key = of.removesuffix("]").partition("[")

    def run(adjust: Any) -> None:
        *parents, last = path.split(".")
        for name in parents:
            adjust = getattr(adjust, name)
        if key:
            getattr(adjust, last)[key] = value
        else:
            setattr(adjust, last, value)

    return run


Call = list[object]
MOUNT: dict[str, object] = {"destination": "/data", "source": "/srv", "type": "bind", "options": ["rbind", "ro"]}
FUSE = {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "file_mode": {"value": 0o666}, "gid": {"value": 5}}
HOOK = {"path": "/bin/a", "args": ["a", "b"], "env": ["A=1"], "timeout": {"value": 10}}
SAME: list[tuple[Callable[[Adjustment], object], list[Call]]] = [
    (assign("annotations[a]", "b"), [["AddAnnotation", "a", "b"]]),
    (removals, [["RemoveAnnotation", "a"], ["RemoveMount", "/data"]]),
    (assign("env[A]", "1"), [["AddEnv", "A", "1"]]),
    (lambda adjust: adjust.env.replace("A", "1"), [["RemoveEnv", "A"], ["AddEnv", "A", "1"]]),
    (lambda adjust: adjust.mounts.add("/data", "/srv", options=["rbind", "ro"]), [["AddMount", MOUNT]]),
    (
        lambda adjust: adjust.mounts.add("/data", "/srv", options=["rbind", "ro"], replace=True),
        [["RemoveMount", "/data"], ["AddMount", MOUNT]],
    ),
    (lambda adjust: adjust.devices.add("/dev/fuse", "c", 10, 229, mode=0o666, gid=5), [["AddDevice", FUSE]]),
    (
        lambda adjust: adjust.devices.add("/dev/fuse", "c", 10, 229, mode=0o666, gid=5, replace=True),
        [["RemoveDevice", "/dev/fuse"], ["AddDevice", FUSE]],
    ),
    (hooks, [["AddHooks", {"create_runtime": [HOOK]}], ["AddHooks", {"poststop": [{"path": "/bin/b"}]}]]),
    (assign("rlimits[RLIMIT_NOFILE]", (1024, 4096)), [["AddRlimit", "RLIMIT_NOFILE", 4096, 1024]]),
    (lambda adjust: adjust.add_cdi_device("a.com/gpu=0"), [["AddCDIDevice", {"name": "a.com/gpu=0"}]]),
    (assign("args", ["sh", "-c"]), [["SetArgs", ["sh", "-c"]]]),
    (assign("sysctl[kernel.shmmax]", "1"), [["SetLinuxSysctl", "kernel.shmmax", "1"]]),
    (assign("memory.limit", 1 << 30), [["SetLinuxMemoryLimit", 1 << 30]]),
    (assign("memory.limit", -1), [["SetLinuxMemoryLimit", -1]]),
    (assign("cpu.shares", 2), [["SetLinuxCPUShares", 2]]),
    (assign("cpu.quota", -1), [["SetLinuxCPUQuota", -1]]),
    (assign("cpu.period", 100_000), [["SetLinuxCPUPeriod", 100_000]]),
    (assign("cpu.cpus", "0-3"), [["SetLinuxCPUSetCPUs", "0-3"]]),
    (assign("cpu.mems", "0"), [["SetLinuxCPUSetMems", "0"]]),
    (assign("pids_limit", 100), [["SetLinuxPidLimits", 100]]),
    (assign("blockio_class", "slow"), [["SetLinuxBlockIOClass", "slow"]]),
    (assign("rdt_class", "gold"), [["SetLinuxRDTClass", "gold"]]),
    (assign("unified[memory.high]", "1"), [["AddLinuxUnified", "memory.high", "1"]]),
    (assign("cgroups_path", "/a"), [["SetLinuxCgroupsPath", "/a"]]),
    (assign("oom_score_adj", -5), [["SetLinuxOomScoreAdj", -5]]),
    (assign("hugepages[2MB]", 1 << 30), [["AddLinuxHugepageLimit", "2MB", 1 << 30]]),
    (assign("namespaces[network]", "/a"), [["AddOrReplaceNamespace", {"type": "network", "path": "/a"}]]),
    (assign("net_devices[eth1]", "net0"), [["AddLinuxNetDevice", "eth1", {"name": "net0"}]]),
    (assign("net_devices[eth1]", ""), [["AddLinuxNetDevice", "eth1", {}]]),
    (assign("rdt.clos_id", "gold"), [["SetLinuxRDTClosID", "gold"]]),
    (assign("rdt.schemata", ["L3:0=ff"]), [["SetLinuxRDTSchemata", ["L3:0=ff"]]]),
    (assign("rdt.enable_monitoring", True), [["SetLinuxRDTEnableMonitoring", True]]),
    (lambda adjust: adjust.rdt.forget(), [["RemoveLinuxRDT"]]),
    (
        lambda adjust: adjust.set_scheduler("SCHED_BATCH", nice=10, flags=["SCHED_FLAG_RESET_ON_FORK"]),
        [["SetLinuxScheduler", {"policy": 4, "nice": 10, "flags": [0]}]],
    ),
    (
        lambda adjust: adjust.set_io_priority("IOPRIO_CLASS_BE", 6),
        [["SetLinuxIOPriority", {"class": 2, "priority": 6}]],
    ),
    (
        lambda adjust: adjust.set_seccomp(
            {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}
        ),
        [
            [
                "SetLinuxSeccompPolicy",
                {"default_action": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]},
            ]
        ],
    ),
]


def test_each_assignment_makes_the_message_of_the_go_method() -> None:
    with Peer("adjust") as go:
        for assignment, calls in SAME:
            adjust = Adjustment()
            assignment(adjust)
            expected = ParseDict(go.ask({"calls": calls})["adjust"], api.ContainerAdjustment())
            assert expected.ByteSize()
            assert adjust.message == expected, calls


def test_assignments_add_up_as_the_methods_do() -> None:
    adjust = Adjustment()
    every = [pair for pair in SAME if pair[0] is not removals]
    for assignment, _ in every:
        assignment(adjust)
    with Peer("adjust") as go:
        told = go.ask({"calls": [call for _, calls in every for call in calls]})["adjust"]
    expected = ParseDict(told, api.ContainerAdjustment())
    # Go's methods append what they have appended before; here the last one counts.
    for once in (adjust.message, expected):
        for repeated in (once.env, once.mounts, once.linux.devices):
            del repeated[:]
    assert adjust.message == expected
