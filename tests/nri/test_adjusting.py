"""`Adjustment` writes NRI's message and nothing else, and an error is raised at the line that is wrong."""

from __future__ import annotations

import re
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


DEVICE = "a name of at most 15 characters"
DEADLINE = "scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period"
WORD = "a text, of which runtimes take an empty one as no change"
NOT_FORWARDED = "NRI does not forward its removal; one of an earlier plugin can be replaced"
WRONG = {
    "del adjust.env['B']": f"env['B']: {NOT_FORWARDED}",
    "del adjust.devices['/dev/b']": f"devices['/dev/b']: {NOT_FORWARDED}",
    "del adjust.rlimits['RLIMIT_CORE']": "rlimits['RLIMIT_CORE']: NRI can change it but not remove it",
    "del adjust.unified['memory.high']": "unified['memory.high']: NRI can change it but not remove it",
    "adjust.env['-B'] = '1'": "env: '-B': NRI takes a name with a leading - as a removal",
    "adjust.annotations['-a'] = '1'": "annotations: '-a': NRI takes a name with a leading - as a removal",
    "adjust.env['A=B'] = '1'": "env: 'A=B' is not a name without =",
    "adjust.env[''] = '1'": "env: '' is not a name without =",
    r"adjust.env['A'] = 'a\x00'": r"env['A']: 'a\x00' has a NUL character",
    "adjust.mounts.add('data', '/srv')": "mounts: 'data' is not an absolute path",
    "adjust.mounts.add('/data', 'srv')": "mounts['/data']: 'srv' is not an absolute path",
    "adjust.mounts.add('/data', '/a', options='ro')": "mounts['/data']: 'ro' is a text, not a list of texts",
    "adjust.devices.add('/dev/a', 'char')": "devices['/dev/a']: 'char' is not c, u, b or p",
    "adjust.hooks.add('start', '/bin/true')": (
        "hooks: 'start' is not one of prestart, create_runtime, create_container, start_container, poststart, poststop"
    ),
    "adjust.hooks.add('poststop', 'true')": "hooks.poststop: 'true' is not an absolute path",
    "adjust.hooks.add('poststop', '/bin/true', env=['A'])": "hooks.poststop: 'A' is not NAME=VALUE",
    "adjust.hooks.add('poststop', '/bin/true', timeout=0)": "hooks.poststop: a timeout of 0 s",
    "adjust.rlimits['RLIMIT_CORE'] = (2, 1)": "rlimits['RLIMIT_CORE']: the soft limit 2 is above the hard limit 1",
    "adjust.rlimits['NOFILE'] = (1, 1)": "rlimits: 'NOFILE' is not RLIMIT_ and a word",
    "adjust.args = []": "args: []: runtimes take no arguments as no change",
    "adjust.args = 'sh'": "args: 'sh' is a text, not a list of texts",
    "adjust.add_cdi_device('gpu0')": "CDI_devices: 'gpu0' is not VENDOR/CLASS=DEVICE",
    "adjust.cpu.shares = 0": "shares: 0 is not 1 or more",
    "adjust.cpu.quota = -2": "quota: -2 is not 1 or more, or -1 for no limit",
    "adjust.memory.limit = 0": "limit: 0 is not 1 or more, or -1 for no limit",
    "adjust.pids_limit = -1": "pids_limit: -1 is not 1 or more",
    "adjust.oom_score_adj = 1001": "oom_score_adj: 1001 is not -1000 to 1000",
    "adjust.cpu.cpus = ''": f"cpus: '' is not {WORD}",
    "adjust.memory.swap = 1": "swap: runtimes change only the limit of memory",
    "adjust.cpu.share = 2": "share: unknown field; did you mean `shares`?",
    "adjust.env = {'A': '1'}": "env: assign to its elements: `env[…] = …`",
    "adjust.hugepages['2M'] = 1": "hugepages: '2M' is not a size such as 2MB",
    "del adjust.hugepages['2MB']": "hugepages['2MB']: NRI can change it but not remove it",
    "adjust.namespaces['net'] = ''": (
        "namespaces: 'net' is not one of network, pid, mount, ipc, uts, user, cgroup, time"
    ),
    "adjust.namespaces['network'] = 'a'": "namespaces['network']: 'a' is not an absolute path",
    "adjust.net_devices['a-name-of-16-let'] = ''": f"net_devices: 'a-name-of-16-let' is not {DEVICE}",
    "del adjust.net_devices['a-longer-name-of-21-c']": f"net_devices: 'a-longer-name-of-21-c' is not {DEVICE}",
    "adjust.net_devices['eth0'] = 'a/b'": f"net_devices['eth0']: 'a/b' is not {DEVICE}",
    "adjust.net_devices['eth0'] = 'a:b'": f"net_devices['eth0']: 'a:b' is not {DEVICE}",
    "adjust.rdt.clos_id = ''": f"clos_id: '' is not {WORD}",
    "adjust.rdt.schemata = 'L3:0=f'": "schemata: 'L3:0=f' is a text, not a list of texts",
    "adjust.set_io_priority('IOPRIO_CLASS_BE', 8)": "io_priority: 8 is not 0 to 7",
    "adjust.set_io_priority('BE')": (
        "io_priority: 'BE' is not one of IOPRIO_CLASS_NONE, IOPRIO_CLASS_RT, IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE"
    ),
    "adjust.set_memory_policy('BIND')": (
        "memory_policy: 'BIND' is not one of MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, "
        "MPOL_PREFERRED_MANY, MPOL_WEIGHTED_INTERLEAVE"
    ),
    "adjust.set_memory_policy('MPOL_BIND', 'all')": "memory_policy: 'all' is not NUMA nodes such as 0-1,3",
    "adjust.set_memory_policy('MPOL_BIND', '0', ['F'])": (
        "memory_policy: 'F' is not one of MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING"
    ),
    "adjust.set_scheduler('FIFO')": (
        "scheduler: 'FIFO' is not one of SCHED_NONE, SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_ISO, "
        "SCHED_IDLE, SCHED_DEADLINE"
    ),
    "adjust.set_scheduler('SCHED_OTHER', flags=['F'])": (
        f"scheduler: 'F' is not one of {', '.join(api.LinuxSchedulerFlag.keys())}"
    ),
    "adjust.set_scheduler('SCHED_BATCH', priority=1)": "scheduler: SCHED_BATCH has no priority",
    "adjust.set_scheduler('SCHED_IDLE', nice=1)": "scheduler: SCHED_IDLE has no nice",
    "adjust.set_scheduler('SCHED_OTHER', nice=20)": "scheduler: nice: 20 is not -20 to 19",
    "adjust.set_scheduler('SCHED_FIFO')": "scheduler: priority: 0 is not 1 to 99",
    "adjust.set_scheduler('SCHED_DEADLINE', runtime=2, deadline=1, period=3)": DEADLINE,
    "adjust.set_scheduler('SCHED_DEADLINE', runtime=0, deadline=2, period=3)": DEADLINE,
    "adjust.set_scheduler('SCHED_DEADLINE', runtime=1, deadline=2, period=1)": DEADLINE,
    "adjust.rlimits['RLIMIT_'] = (1, 1)": "rlimits: 'RLIMIT_' is not RLIMIT_ and a word",
    "adjust.rlimits['RLIMIT_core'] = (1, 1)": "rlimits: 'RLIMIT_core' is not RLIMIT_ and a word",
    "adjust.hooks.add('poststop', '/bin/true', env=['=A'])": "hooks.poststop: '=A' is not NAME=VALUE",
    "adjust.hooks.add('poststop', '/bin/true', 'true')": "hooks.poststop: 'true' is a text, not a list of texts",
    "adjust.hooks.add('poststop', '/bin/true', env='A=1')": "hooks.poststop: 'A=1' is a text, not a list of texts",
    "adjust.hugepages['02MB'] = 1": "hugepages: '02MB' is not a size such as 2MB",
    "adjust.args = ['', 'a']": "args: ['', 'a']: runtimes take no arguments as no change",
    "adjust.oom_score_adj = -1001": "oom_score_adj: -1001 is not -1000 to 1000",
    "adjust.add_cdi_device('a/b=')": "CDI_devices: 'a/b=' is not VENDOR/CLASS=DEVICE",
    "adjust.add_cdi_device('a/b/c=d')": "CDI_devices: 'a/b/c=d' is not VENDOR/CLASS=DEVICE",
    "adjust.devices.add('dev', 'c')": "devices: 'dev' is not an absolute path",
    r"adjust.mounts.add('/data', 'a', 'a\x00')": r"mounts['/data']: 'a\x00' has a NUL character",
    r"adjust.mounts.add('/data', 'b\x00', 'tmpfs')": r"mounts['/data']: 'b\x00' has a NUL character",
    r"adjust.cpu.cpus = '\x00'": rf"cpus: '\x00' is not {WORD}",
    "adjust.cpu.mems = 1": f"mems: 1 (int) is not {WORD}",
    "adjust.rdt.enable_monitoring = 'yes'": "enable_monitoring: 'yes' (str) is not True or False",
    "adjust.set_io_priority('IOPRIO_CLASS_BE', -1)": "io_priority: -1 is not 0 to 7",
    "adjust.set_scheduler('SCHED_OTHER', nice=-21)": "scheduler: nice: -21 is not -20 to 19",
    "adjust.set_scheduler('SCHED_RR', priority=100)": "scheduler: priority: 100 is not 1 to 99",
    "adjust.set_scheduler('SCHED_OTHER', flags='F')": "scheduler: 'F' is a text, not a list of texts",
    "adjust.set_memory_policy('MPOL_BIND', '0', 'F')": "memory_policy: 'F' is a text, not a list of texts",
    "adjust.set_seccomp({})": "seccomp: no defaultAction",
    "adjust.set_seccomp({'defaultaction': 'SCMP_ACT_ALLOW'})": (
        "seccomp: unknown key 'defaultaction'; did you mean `defaultAction`?"
    ),
    "adjust.set_seccomp({'defaultAction': 'SCMP_ACT_ALLOW', 'syscalls': [{}, {'name': 'mount'}]})": (
        "seccomp.syscalls[1]: unknown key 'name'; did you mean `names`?"
    ),
}


@pytest.mark.parametrize("code", WRONG)
def test_what_has_no_effect_is_refused_and_nothing_is_written(code: str) -> None:
    adjust = Adjustment()
    with pytest.raises((ValueError, AttributeError, TypeError)) as raised:
        exec(code, {"adjust": adjust})  # noqa: S102
    assert str(raised.value) == WRONG[code]
    assert not adjust.message.ByteSize()


TAKEN = {
    "adjust.cpu.shares = 1": "linux { resources { cpu { shares { value: 1 } } } }",
    "adjust.memory.limit = 1": "linux { resources { memory { limit { value: 1 } } } }",
    "adjust.oom_score_adj = 1000": "linux { oom_score_adj { value: 1000 } }",
    "adjust.oom_score_adj = -1000": "linux { oom_score_adj { value: -1000 } }",
    "adjust.rdt_class = 'gold'": 'linux { resources { rdt_class { value: "gold" } } }',
    "adjust.hugepages['16KB'] = 0": 'linux { resources { hugepage_limits { page_size: "16KB" } } }',
    "adjust.net_devices['a-name-of-15-le'] = ''": 'linux { net_devices { key: "a-name-of-15-le" value { } } }',
    r"adjust.sysctl['a\nb'] = ''": 'linux { sysctl { key: "a\\nb" value: "" } }',
    "adjust.add_cdi_device('a.b/c=0')": 'CDI_devices { name: "a.b/c=0" }',
    "adjust.hooks.add('poststop', '/a', ['a', 'b'], ['A='], timeout=1)": (
        'hooks { poststop { path: "/a" args: ["a", "b"] env: "A=" timeout { value: 1 } } }'
    ),
    "adjust.mounts.add('/a', '/', options=['ro'])": (
        'mounts { destination: "/a" source: "/" type: "bind" options: ["ro", "bind"] }'
    ),
    "adjust.mounts.add('/a', '/', options=['rbind'])": (
        'mounts { destination: "/a" source: "/" type: "bind" options: "rbind" }'
    ),
    "adjust.mounts.add('/a', 'b', 'tmpfs')": 'mounts { destination: "/a" source: "b" type: "tmpfs" }',
    "adjust.devices.add('/a', 'u', mode=0, uid=1, gid=2)": (
        'linux { devices { path: "/a" type: "u" file_mode { } uid { value: 1 } gid { value: 2 } } }'
    ),
    "adjust.set_scheduler('SCHED_OTHER', nice=19)": "linux { scheduler { policy: SCHED_OTHER nice: 19 } }",
    "adjust.set_scheduler('SCHED_RR', priority=1)": "linux { scheduler { policy: SCHED_RR priority: 1 } }",
    "adjust.set_scheduler('SCHED_DEADLINE', runtime=1, deadline=1, period=1)": (
        "linux { scheduler { policy: SCHED_DEADLINE runtime: 1 deadline: 1 period: 1 } }"
    ),
    "adjust.set_io_priority('IOPRIO_CLASS_IDLE')": "linux { io_priority { class: IOPRIO_CLASS_IDLE } }",
    "adjust.set_memory_policy('MPOL_LOCAL')": "linux { memory_policy { mode: MPOL_LOCAL } }",
    "adjust.set_memory_policy('MPOL_BIND', '0,2,4-5')": 'linux { memory_policy { mode: MPOL_BIND nodes: "0,2,4-5" } }',
}


@pytest.mark.parametrize("code", TAKEN)
def test_what_just_fits_is_written_and_nothing_else(code: str) -> None:
    adjust = Adjustment()
    exec(code, {"adjust": adjust})  # noqa: S102
    assert adjust.message == text_format.Parse(TAKEN[code], api.ContainerAdjustment())


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
