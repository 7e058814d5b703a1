"""`Adjustment` writes NRI's message and nothing else, and an error is raised at the line that is wrong."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.json_format import ParseDict

from nri import Adjustment, Update, api, effective_annotation


def adjusted(message: api.ContainerAdjustment) -> dict[str, list[str]]:
    """The names of the elements of each list."""
    lists: dict[str, Any] = {"env": message.env, "mounts": message.mounts, "devices": message.linux.devices}
    keys = {"env": "key", "mounts": "destination", "devices": "path"}
    return {name: [getattr(one, keys[name]) for one in elements] for name, elements in lists.items() if elements}


def test_it_writes_the_message_that_it_gets_and_leaves_it_empty_until_something_is_set() -> None:
    response = api.CreateContainerResponse()
    adjust = Adjustment(response.adjust)
    assert not response.HasField("adjust")
    assert (adjust.cpu.shares, adjust.memory.limit, adjust.cgroups_path, adjust.pids_limit) == (None,) * 4
    adjust.cpu.shares = 2
    assert response.adjust == ParseDict(
        {"linux": {"resources": {"cpu": {"shares": {"value": 2}}}}}, api.ContainerAdjustment()
    )
    adjust.cgroups_path = "/a"
    assert (adjust.cpu.shares, adjust.cgroups_path) == (2, "/a")
    assert adjust.message == response.adjust


def test_a_value_that_is_set_again_is_there_once() -> None:
    adjust = Adjustment()
    for number in range(2):
        adjust.env["A"] = str(number)
        adjust.mounts.add("/data", f"/srv/{number}")
        adjust.devices.add("/dev/a", "c", 1, number)
        adjust.rlimits["RLIMIT_CORE"] = 0, number
        adjust.args = ["sh", str(number)]
    message = adjust.message
    assert [(one.key, one.value) for one in message.env] == [("A", "1")]
    assert [(one.destination, one.source, [*one.options]) for one in message.mounts] == [("/data", "/srv/1", ["bind"])]
    assert [one.minor for one in message.linux.devices] == [1]
    assert [one.hard for one in message.rlimits] == [1]
    assert (list(adjust.args), list(message.args)) == (["sh", "1"],) * 2


def test_replacing_an_element_removes_it_first_and_del_takes_back_what_was_set() -> None:
    adjust = Adjustment()
    adjust.env.replace("A", "1")
    adjust.mounts.add("/data", "/srv", options=["rbind"], replace=True)
    adjust.devices.add("/dev/a", "p", replace=True)
    assert adjusted(adjust.message) == {
        "env": ["-A", "A"],
        "mounts": ["-/data", "/data"],
        "devices": ["-/dev/a", "/dev/a"],
    }
    del adjust.env["A"]
    del adjust.devices["/dev/a"]
    del adjust.mounts["/data"]
    assert adjusted(adjust.message) == {"mounts": ["-/data"]}
    adjust.mounts.add("/data", "/srv")
    assert adjusted(adjust.message) == {"mounts": ["/data"]}


def test_what_is_set_in_a_map_is_not_removed_in_it_too() -> None:
    adjust = Adjustment()
    del adjust.annotations["a"]
    assert adjust.message.annotations == {"-a": ""}
    adjust.annotations["a"] = "b"
    assert adjust.message.annotations == {"a": "b"}
    del adjust.annotations["a"]
    assert adjust.message.annotations == {"-a": ""}
    adjust.unified["memory.high"] = "1"
    del adjust.unified["memory.high"]
    assert not adjust.message.linux.resources.unified


def attribute(name: str, value: object) -> Callable[[Any], None]:
    return lambda adjust: setattr(adjust, name, value)


def item(of: str, name: object, value: object) -> Callable[[Any], None]:
    def assign(adjust: Any) -> None:
        getattr(adjust, of)[name] = value

    return assign


def removal(of: str, name: str) -> Callable[[Any], None]:
    return lambda adjust: getattr(adjust, of).__delitem__(name)


NOT_FORWARDED = "NRI does not forward its removal; one of an earlier plugin can be replaced"
WRONG: dict[str, Callable[[Any], object]] = {
    f"env['B']: {NOT_FORWARDED}": removal("env", "B"),
    f"devices['/dev/b']: {NOT_FORWARDED}": removal("devices", "/dev/b"),
    "rlimits['RLIMIT_CORE']: NRI can change it but not remove it": removal("rlimits", "RLIMIT_CORE"),
    "unified['memory.high']: NRI can change it but not remove it": removal("unified", "memory.high"),
    "env: '-B': NRI takes a name with a leading - as a removal": item("env", "-B", "1"),
    "annotations: '-a': NRI takes a name with a leading - as a removal": item("annotations", "-a", "1"),
    "env: 'A=B' is not a name without =": item("env", "A=B", "1"),
    "env: '' is not a name without =": item("env", "", "1"),
    r"env['A']: 'a\x00' has a NUL character": item("env", "A", "a\0"),
    "mounts: 'data' is not an absolute path": lambda adjust: adjust.mounts.add("data", "/srv"),
    "mounts['/data']: 'srv' is not an absolute path": lambda adjust: adjust.mounts.add("/data", "srv"),
    "mounts['/data']: 'ro' is a text, not a list of texts": lambda adjust: adjust.mounts.add(
        "/data", "/a", options="ro"
    ),
    "devices['/dev/a']: 'char' is not c, u, b or p": lambda adjust: adjust.devices.add("/dev/a", "char"),
    "hooks: 'start' is not one of prestart, create_runtime, create_container, start_container, poststart, poststop": (
        lambda adjust: adjust.hooks.add("start", "/bin/true")
    ),
    "hooks.poststop: 'true' is not an absolute path": lambda adjust: adjust.hooks.add("poststop", "true"),
    "hooks.poststop: 'A' is not NAME=VALUE": lambda adjust: adjust.hooks.add("poststop", "/bin/true", env=["A"]),
    "hooks.poststop: a timeout of 0 s": lambda adjust: adjust.hooks.add("poststop", "/bin/true", timeout=0),
    "rlimits['RLIMIT_CORE']: the soft limit 2 is above the hard limit 1": item("rlimits", "RLIMIT_CORE", (2, 1)),
    "rlimits: 'NOFILE' is not RLIMIT_ and a word": item("rlimits", "NOFILE", (1, 1)),
    "args: []: runtimes take no arguments as no change": attribute("args", []),
    "args: 'sh' is a text, not a list of texts": attribute("args", "sh"),
    "CDI_devices: 'gpu0' is not VENDOR/CLASS=DEVICE": lambda adjust: adjust.add_cdi_device("gpu0"),
    "shares: 0 is not 1 or more": lambda adjust: setattr(adjust.cpu, "shares", 0),
    "quota: -2 is not 1 or more, or -1 for no limit": lambda adjust: setattr(adjust.cpu, "quota", -2),
    "limit: 0 is not 1 or more, or -1 for no limit": lambda adjust: setattr(adjust.memory, "limit", 0),
    "pids_limit: -1 is not 1 or more": attribute("pids_limit", -1),
    "oom_score_adj: 1001 is not -1000 to 1000": attribute("oom_score_adj", 1001),
    "cpus: '' is not a text, of which runtimes take an empty one as no change": (
        lambda adjust: setattr(adjust.cpu, "cpus", "")
    ),
    "swap: runtimes change only the limit of memory": lambda adjust: setattr(adjust.memory, "swap", 1),
    "share: unknown field; did you mean `shares`?": lambda adjust: setattr(adjust.cpu, "share", 2),
    "env: assign to its elements: `env[…] = …`": attribute("env", {"A": "1"}),
    "hugepages: '2M' is not a size such as 2MB": item("hugepages", "2M", 1),
    "hugepages['2MB']: NRI can change it but not remove it": removal("hugepages", "2MB"),
    "namespaces: 'net' is not one of network, pid, mount, ipc, uts, user, cgroup, time": item("namespaces", "net", ""),
    "namespaces['network']: 'a' is not an absolute path": item("namespaces", "network", "a"),
    "net_devices: 'a-name-of-16-let' is not a name of at most 15 characters": item(
        "net_devices", "a-name-of-16-let", ""
    ),
    "net_devices: 'a-longer-name-of-21-c' is not a name of at most 15 characters": removal(
        "net_devices", "a-longer-name-of-21-c"
    ),
    "net_devices['eth0']: 'a/b' is not a name of at most 15 characters": item("net_devices", "eth0", "a/b"),
    "clos_id: '' is not a text, of which runtimes take an empty one as no change": (
        lambda adjust: setattr(adjust.rdt, "clos_id", "")
    ),
    "schemata: 'L3:0=f' is a text, not a list of texts": lambda adjust: setattr(adjust.rdt, "schemata", "L3:0=f"),
    "io_priority: 8 is not 0 to 7": lambda adjust: adjust.set_io_priority("IOPRIO_CLASS_BE", 8),
    "io_priority: 'BE' is not one of IOPRIO_CLASS_NONE, IOPRIO_CLASS_RT, IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE": (
        lambda adjust: adjust.set_io_priority("BE")
    ),
    "memory_policy: 'all' is not NUMA nodes such as 0-1,3": lambda adjust: adjust.set_memory_policy("MPOL_BIND", "all"),
    "memory_policy: 'F' is not one of MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING": (
        lambda adjust: adjust.set_memory_policy("MPOL_BIND", "0", ["F"])
    ),
    "scheduler: SCHED_BATCH has no priority": lambda adjust: adjust.set_scheduler("SCHED_BATCH", priority=1),
    "scheduler: SCHED_IDLE has no nice": lambda adjust: adjust.set_scheduler("SCHED_IDLE", nice=1),
    "scheduler: nice: 20 is not -20 to 19": lambda adjust: adjust.set_scheduler("SCHED_OTHER", nice=20),
    "scheduler: priority: 0 is not 1 to 99": lambda adjust: adjust.set_scheduler("SCHED_FIFO"),
    "scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period": (
        lambda adjust: adjust.set_scheduler("SCHED_DEADLINE", runtime=2, deadline=1, period=3)
    ),
    "net_devices['eth0']: 'a:b' is not a name of at most 15 characters": item("net_devices", "eth0", "a:b"),
    "rlimits: 'RLIMIT_' is not RLIMIT_ and a word": item("rlimits", "RLIMIT_", (1, 1)),
    "rlimits: 'RLIMIT_core' is not RLIMIT_ and a word": item("rlimits", "RLIMIT_core", (1, 1)),
    "hooks.poststop: '=A' is not NAME=VALUE": lambda adjust: adjust.hooks.add("poststop", "/bin/true", env=["=A"]),
    "hooks.poststop: 'true' is a text, not a list of texts": (
        lambda adjust: adjust.hooks.add("poststop", "/bin/true", "true")
    ),
    "hooks.poststop: 'A=1' is a text, not a list of texts": (
        lambda adjust: adjust.hooks.add("poststop", "/bin/true", env="A=1")
    ),
    "hugepages: '02MB' is not a size such as 2MB": item("hugepages", "02MB", 1),
    "args: ['']: runtimes take no arguments as no change": attribute("args", [""]),
    "oom_score_adj: -1001 is not -1000 to 1000": attribute("oom_score_adj", -1001),
    "CDI_devices: 'a/b=' is not VENDOR/CLASS=DEVICE": lambda adjust: adjust.add_cdi_device("a/b="),
    "CDI_devices: 'a/b/c=d' is not VENDOR/CLASS=DEVICE": lambda adjust: adjust.add_cdi_device("a/b/c=d"),
    "devices: 'dev' is not an absolute path": lambda adjust: adjust.devices.add("dev", "c"),
    r"mounts['/data']: 'a\x00' has a NUL character": lambda adjust: adjust.mounts.add("/data", "a", "a\0"),
    r"mounts['/data']: 'b\x00' has a NUL character": lambda adjust: adjust.mounts.add("/data", "b\0", "tmpfs"),
    r"cpus: '\x00' is not a text, of which runtimes take an empty one as no change": (
        lambda adjust: setattr(adjust.cpu, "cpus", "\0")
    ),
    "mems: 1 (int) is not a text, of which runtimes take an empty one as no change": (
        lambda adjust: setattr(adjust.cpu, "mems", 1)
    ),
    "enable_monitoring: 'yes' (str) is not True or False": (
        lambda adjust: setattr(adjust.rdt, "enable_monitoring", "yes")
    ),
    "io_priority: -1 is not 0 to 7": lambda adjust: adjust.set_io_priority("IOPRIO_CLASS_BE", -1),
    "scheduler: nice: -21 is not -20 to 19": lambda adjust: adjust.set_scheduler("SCHED_OTHER", nice=-21),
    "scheduler: priority: 100 is not 1 to 99": lambda adjust: adjust.set_scheduler("SCHED_RR", priority=100),
    "scheduler: 'F' is a text, not a list of texts": lambda adjust: adjust.set_scheduler("SCHED_OTHER", flags="F"),
    "memory_policy: 'F' is a text, not a list of texts": (
        lambda adjust: adjust.set_memory_policy("MPOL_BIND", "0", "F")
    ),
    "seccomp: no defaultAction": lambda adjust: adjust.set_seccomp({}),
    "seccomp: unknown key 'defaultaction'; did you mean `defaultAction`?": (
        lambda adjust: adjust.set_seccomp({"defaultaction": "SCMP_ACT_ALLOW"})
    ),
    "seccomp.syscalls[1]: unknown key 'name'; did you mean `names`?": (
        lambda adjust: adjust.set_seccomp({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{}, {"name": "mount"}]})
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_has_no_effect_is_refused_and_nothing_is_written(text: str) -> None:
    adjust = Adjustment()
    with pytest.raises((ValueError, AttributeError, TypeError)) as raised:
        WRONG[text](adjust)
    assert str(raised.value) == text
    assert not adjust.message.ByteSize()
    assert traceback.extract_tb(raised.tb)[0].filename == __file__


TAKEN: dict[str, Callable[[Any], object]] = {
    "linux { resources { cpu { shares { value: 1 } } } }": lambda adjust: setattr(adjust.cpu, "shares", 1),
    "linux { resources { memory { limit { value: 1 } } } }": lambda adjust: setattr(adjust.memory, "limit", 1),
    "linux { oom_score_adj { value: 1000 } }": attribute("oom_score_adj", 1000),
    "linux { oom_score_adj { value: -1000 } }": attribute("oom_score_adj", -1000),
    'linux { resources { rdt_class { value: "gold" } } }': attribute("rdt_class", "gold"),
    'linux { resources { hugepage_limits { page_size: "16KB" } } }': item("hugepages", "16KB", 0),
    'linux { net_devices { key: "a-name-of-15-le" value { } } }': item("net_devices", "a-name-of-15-le", ""),
    'linux { sysctl { key: "a\\nb" value: "" } }': item("sysctl", "a\nb", ""),
    'CDI_devices { name: "a.b/c=0" }': lambda adjust: adjust.add_cdi_device("a.b/c=0"),
    'hooks { poststop { path: "/a" args: ["a", "b"] env: "A=" timeout { value: 1 } } }': (
        lambda adjust: adjust.hooks.add("poststop", "/a", ["a", "b"], ["A="], timeout=1)
    ),
    'mounts { destination: "/a" source: "/" type: "bind" options: ["ro", "bind"] }': (
        lambda adjust: adjust.mounts.add("/a", "/", options=["ro"])
    ),
    'mounts { destination: "/a" source: "/" type: "bind" options: "rbind" }': (
        lambda adjust: adjust.mounts.add("/a", "/", options=["rbind"])
    ),
    'mounts { destination: "/a" source: "b" type: "tmpfs" }': lambda adjust: adjust.mounts.add("/a", "b", "tmpfs"),
    'linux { devices { path: "/a" type: "u" file_mode { } uid { value: 1 } gid { value: 2 } } }': (
        lambda adjust: adjust.devices.add("/a", "u", mode=0, uid=1, gid=2)
    ),
    "linux { scheduler { policy: SCHED_OTHER nice: 19 } }": lambda adjust: adjust.set_scheduler("SCHED_OTHER", nice=19),
    "linux { scheduler { policy: SCHED_RR priority: 1 } }": lambda adjust: adjust.set_scheduler("SCHED_RR", priority=1),
    "linux { scheduler { policy: SCHED_DEADLINE runtime: 1 deadline: 1 period: 1 } }": (
        lambda adjust: adjust.set_scheduler("SCHED_DEADLINE", runtime=1, deadline=1, period=1)
    ),
    "linux { io_priority { class: IOPRIO_CLASS_IDLE } }": lambda adjust: adjust.set_io_priority("IOPRIO_CLASS_IDLE"),
    "linux { memory_policy { mode: MPOL_LOCAL } }": lambda adjust: adjust.set_memory_policy("MPOL_LOCAL"),
    'linux { memory_policy { mode: MPOL_BIND nodes: "0,2,4-5" } }': (
        lambda adjust: adjust.set_memory_policy("MPOL_BIND", "0,2,4-5")
    ),
}


@pytest.mark.parametrize("text", TAKEN)
def test_what_just_fits_is_written_and_nothing_else(text: str) -> None:
    adjust = Adjustment()
    TAKEN[text](adjust)
    assert adjust.message == text_format.Parse(text, api.ContainerAdjustment())


@pytest.mark.parametrize("value", [True, 1.5])
def test_a_value_of_another_type_leaves_no_zero_behind(value: Any) -> None:
    """A plugin that goes on after the error would set a quota of 0."""
    adjust = Adjustment()
    for of, name in ((adjust.cpu, "quota"), (adjust.cpu, "shares"), (adjust.memory, "limit"), (adjust, "pids_limit")):
        wrong = f"{name}: {value} ({type(value).__name__}) is not a number, 1 or more"
        with pytest.raises(TypeError, match=f"^{re.escape(wrong)}"):
            setattr(of, name, value)
        assert not adjust.message.ByteSize()


def of(**fields: Any) -> api.ContainerAdjustment:
    return ParseDict({"linux": fields}, api.ContainerAdjustment())


def test_what_is_rare_has_helpers_too() -> None:
    adjust = Adjustment()
    adjust.hugepages["2MB"] = 1 << 20
    adjust.hugepages["2MB"] = 1 << 30
    adjust.namespaces["network"] = "/run/netns/a"
    adjust.namespaces["ipc"] = ""
    del adjust.namespaces["uts"]
    assert adjust.message == of(
        resources={"hugepage_limits": [{"page_size": "2MB", "limit": 1 << 30}]},
        namespaces=[{"type": "network", "path": "/run/netns/a"}, {"type": "ipc"}, {"type": "-uts"}],
    )
    adjust = Adjustment()
    adjust.net_devices["eth1"] = "net0"
    adjust.net_devices["eth2"] = ""
    del adjust.net_devices["eth2"]
    del adjust.net_devices["eth3"]
    adjust.net_devices["eth3"] = ""
    assert adjust.message == of(net_devices={"eth1": {"name": "net0"}, "-eth2": {}, "eth3": {}})
    adjust = Adjustment()
    adjust.rdt.forget()
    adjust.rdt.clos_id = "gold"
    adjust.rdt.schemata = ["L3:0=ff", "MB:0=50"]
    adjust.rdt.enable_monitoring = False
    assert (adjust.rdt.clos_id, list(adjust.rdt.schemata)) == ("gold", ["L3:0=ff", "MB:0=50"])
    assert adjust.message == of(
        rdt={
            "clos_id": {"value": "gold"},
            "schemata": {"value": ["L3:0=ff", "MB:0=50"]},
            "enable_monitoring": {"value": False},
            "remove": True,
        }
    )


def test_scheduling_and_memory_policy_are_set_whole() -> None:
    adjust = Adjustment()
    adjust.set_scheduler("SCHED_FIFO", priority=99)
    adjust.set_scheduler("SCHED_BATCH", nice=-20, flags=["SCHED_FLAG_RESET_ON_FORK"])
    adjust.set_io_priority("IOPRIO_CLASS_BE", 7)
    adjust.set_memory_policy("MPOL_BIND", "0-1,3", ["MPOL_F_STATIC_NODES"])
    assert adjust.message == of(
        scheduler={"policy": "SCHED_BATCH", "nice": -20, "flags": ["SCHED_FLAG_RESET_ON_FORK"]},
        io_priority={"class": "IOPRIO_CLASS_BE", "priority": 7},
        memory_policy={"mode": "MPOL_BIND", "nodes": "0-1,3", "flags": ["MPOL_F_STATIC_NODES"]},
    )
    for runtime, period in ((0, 3), (1, 1)):
        with pytest.raises(ValueError, match="SCHED_DEADLINE needs 0 < runtime <= deadline <= period"):
            adjust.set_scheduler("SCHED_DEADLINE", runtime=runtime, deadline=2, period=period)
    adjust.set_scheduler("SCHED_DEADLINE", runtime=1, deadline=2, period=3)
    assert adjust.message.linux.scheduler == api.LinuxScheduler(
        policy=api.SCHED_DEADLINE, runtime=1, deadline=2, period=3
    )


def test_a_seccomp_profile_is_that_of_the_oci_specification() -> None:
    adjust = Adjustment()
    for _ in range(2):  # the second one replaces the first
        adjust.set_seccomp(
            {
                "defaultAction": "SCMP_ACT_ERRNO",
                "defaultErrnoRet": 38,
                "architectures": ["SCMP_ARCH_X86_64"],
                "flags": ["SECCOMP_FILTER_FLAG_LOG"],
                "listenerPath": "/run/agent",
                "listenerMetadata": "of-c1",
                "syscalls": [
                    {
                        "names": ["clone", "fork"],
                        "action": "SCMP_ACT_ALLOW",
                        "errnoRet": 0,
                        "args": [{"index": 0, "value": 1, "valueTwo": 2, "op": "SCMP_CMP_MASKED_EQ"}],
                    }
                ],
            }
        )
    assert adjust.message == of(
        seccomp_policy={
            "default_action": "SCMP_ACT_ERRNO",
            "default_errno": {"value": 38},
            "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listener_path": "/run/agent",
            "listener_metadata": "of-c1",
            "syscalls": [
                {
                    "names": ["clone", "fork"],
                    "action": "SCMP_ACT_ALLOW",
                    "errno_ret": {"value": 0},
                    "args": [{"index": 0, "value": 1, "value_two": 2, "op": "SCMP_CMP_MASKED_EQ"}],
                }
            ],
        }
    )


def test_an_update_is_written_with_the_checks_of_an_adjustment() -> None:
    update = Update("c1")
    update.cpu.shares = 2
    update.memory.limit = -1
    update.hugepages["1GB"] = 0
    update.unified["memory.high"] = "max"
    update.blockio_class = "slow"
    update.ignore_failure = True
    assert update.message == ParseDict(
        {
            "container_id": "c1",
            "linux": {
                "resources": {
                    "cpu": {"shares": {"value": 2}},
                    "memory": {"limit": {"value": -1}},
                    "hugepage_limits": [{"page_size": "1GB"}],
                    "unified": {"memory.high": "max"},
                    "blockio_class": {"value": "slow"},
                }
            },
            "ignore_failure": True,
        },
        api.ContainerUpdate(),
    )
    for name, text in {
        "pids_limit": "pids_limit: containerd's updates do not carry it",
        "cgroups_path": "cgroups_path: unknown field; did you mean",
    }.items():
        with pytest.raises(AttributeError, match=f"^{text}"):
            setattr(update, name, 1)
    with pytest.raises(ValueError, match=r"^container_id: '' is not a name"):
        Update("")


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({"k": "pod"}, "pod"),
        ({"k": "", "k/pod": "of all"}, "of all"),
        ({"k": "1", "k/pod": "2", "k/container.c": ""}, ""),
        ({"k/container.other": "1"}, None),
    ],
)
def test_an_effective_annotation_is_the_containers_before_the_pods(
    annotations: dict[str, str], value: str | None
) -> None:
    pod, container = api.PodSandbox(annotations=annotations), api.Container(name="c")
    assert effective_annotation(pod, "k", container) == value
    assert "k" not in pod.annotations or annotations["k"] == pod.annotations["k"]
