"""Writes adjustments of containers by assignment: `adjust.env["A"] = "1"`, `adjust.cpu.shares = 2`.

What NRI cannot express, and what runtimes would drop, raises an error at once, so that its traceback names the line.
Which runtimes honour a change is in the comments of NRI's messages.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from google.protobuf.message import Message

from nri.errors import nearest
from nri.fields import Elements, Names, Strict, Value, absolute, named, one_of, text, texts
from nri.needs import NOT_FORWARDED, NOT_REMOVABLE, ONLY_THE_LIMIT
from nri.proto import nri_pb2 as api

Stage: TypeAlias = Literal["prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop"]

_REPLACED = f"{NOT_FORWARDED}; one of an earlier plugin can be replaced"
_DEVICE = "[^/: ]{1,15}"
"""A name of a network device (Linux: dev_valid_name)."""


def _some(of: str = "") -> Value[int]:
    return Value("1 or more", lambda number: number > 0, of)


def _limit() -> Value[int]:
    return Value("1 or more, or -1 for no limit", lambda number: number > 0 or number == -1)


def _word(of: str = "") -> Value[str]:
    return Value("a text, of which runtimes take an empty one as no change", lambda word: text("", word) != "", of)


class Env(Elements):
    """Variables: `env["A"] = "1"`. A variable that an earlier plugin has set fails the container: see `replace`."""

    def __setitem__(self, name: str, value: str) -> None:
        self._set(name, value)

    def replace(self, name: str, value: str) -> None:
        """Sets a variable, also if an earlier plugin has set it."""
        self._set(name, value, replace=True)

    def _set(self, name: str, value: str, replace: bool = False) -> None:
        named("env", name, "[^=]+", "a name without =")
        self._put(api.KeyValue(key=name, value=text(f"env[{name!r}]", value)), replace)


class Mounts(Elements):
    """Mounts by their destinations. `del mounts["/data"]` removes a mount of the container."""

    def add(
        self, destination: str, source: str, type: str = "bind", options: Sequence[str] = (), *, replace: bool = False
    ) -> None:
        """Mounts a file or directory of the node: `add("/data", "/srv/data", options=["rbind", "ro"])`.

        `replace`: also if an earlier plugin has mounted something there.
        """
        place = f"mounts[{destination!r}]"
        mount = api.Mount(destination=absolute("mounts", destination), type=text(place, type))
        mount.source = absolute(place, source) if type == "bind" else text(place, source)
        mount.options.extend(texts(place, options))
        if type == "bind" and not {"bind", "rbind"} & {*options}:
            mount.options.append("bind")  # without it, the kernel takes the source for a block device
        self._put(mount, replace)


class Devices(Elements):
    """Device nodes by their paths."""

    def add(
        self, path: str, type: Literal["c", "u", "b", "p"], major: int = 0, minor: int = 0,
        *, mode: int | None = None, uid: int | None = None, gid: int | None = None, replace: bool = False,
    ) -> None:  # fmt: skip
        """Makes a device node and allows its use: `add("/dev/fuse", "c", 10, 229, mode=0o666)`.

        `replace`: also if an earlier plugin has added it.
        """
        if type not in ("c", "u", "b", "p"):
            raise ValueError(f"devices[{path!r}]: {type!r} is not c, u, b or p")
        device = api.LinuxDevice(path=absolute("devices", path), type=type, major=major, minor=minor)
        for wrapper, value in ((device.file_mode, mode), (device.uid, uid), (device.gid, gid)):
            if value is not None:
                wrapper.value = value
        self._put(device, replace)


class Rlimits(Elements):
    """Rlimits, soft and hard: `rlimits["RLIMIT_NOFILE"] = 1024, 4096`."""

    def __setitem__(self, name: str, limits: tuple[int, int]) -> None:
        soft, hard = limits
        if soft > hard:
            raise ValueError(f"rlimits[{name!r}]: the soft limit {soft} is above the hard limit {hard}")
        named("rlimits", name, "RLIMIT_[A-Z]+", "RLIMIT_ and a word")
        self._put(api.POSIXRlimit(type=name, soft=soft, hard=hard))


class Hooks:
    """OCI hooks, to which an adjustment can only append."""

    def __init__(self, message: api.ContainerAdjustment) -> None:
        self._message = message

    def add(
        self, stage: Stage, path: str, args: Sequence[str] = (), env: Sequence[str] = (), timeout: int | None = None
    ) -> None:
        """Adds a program of the node. `args` begin with argv[0], `timeout` is in seconds."""
        if stage not in api.Hooks.DESCRIPTOR.fields_by_name:
            raise ValueError(f"hooks: {stage!r} is not one of {', '.join(api.Hooks.DESCRIPTOR.fields_by_name)}")
        place = f"hooks.{stage}"
        hook = api.Hook(path=absolute(place, path), args=texts(place, args))
        hook.env.extend(named(place, one, "[^=]+=.*", "NAME=VALUE") for one in texts(place, env))
        if timeout is not None:
            if timeout < 1:
                raise ValueError(f"{place}: a timeout of {timeout} s")
            hook.timeout.value = timeout
        getattr(self._message.hooks, stage).append(hook)


class CPU(Strict):
    """Shares, quotas and sets of CPUs, in the units of `api.LinuxCPU`."""

    shares = _some()
    quota = _limit()
    period = _some()
    cpus = _word()
    mems = _word()


class Memory(Strict):
    """The limit of memory, in bytes."""

    refused = dict.fromkeys(api.LinuxMemory.DESCRIPTOR.fields_by_name, ONLY_THE_LIMIT)
    limit = _limit()


class HugePages(Elements):
    """Limits of huge pages in bytes, by the size of a page: `hugepages["2MB"] = 1 << 30`."""

    def __setitem__(self, size: str, limit: int) -> None:
        named("hugepages", size, "[1-9][0-9]*(KB|MB|GB)", "a size such as 2MB")
        self._put(api.HugepageLimit(page_size=size, limit=limit))


class Namespaces(Elements):
    """Namespaces by their types, the OCI specification's: `namespaces["network"] = "/run/netns/a"`; "" is a new one."""

    def __setitem__(self, type: str, path: str) -> None:
        one_of("namespaces", type, ("network", "pid", "mount", "ipc", "uts", "user", "cgroup", "time"))
        place = f"namespaces[{type!r}]"
        self._put(api.LinuxNamespace(type=type, path=absolute(place, path) if path else ""))


class NetDevices:
    """Network devices of the node, by their names there: `net_devices["eth1"] = "net0"`, or "" for the same name.

    A device moves into the container's network namespace. `del net_devices["eth1"]` takes back what an earlier plugin
    has set.
    """

    def __init__(self, target: MutableMapping[str, api.LinuxNetDevice]) -> None:
        self._target = target

    def __setitem__(self, name: str, inside: str) -> None:
        named("net_devices", name, _DEVICE, "a name of at most 15 characters")
        if inside:
            named(f"net_devices[{name!r}]", inside, _DEVICE, "a name of at most 15 characters")
        self._target.pop(f"-{name}", None)
        self._target[name].name = inside

    def __delitem__(self, name: str) -> None:
        named("net_devices", name, _DEVICE, "a name of at most 15 characters")
        self._target.pop(name, None)
        self._target[f"-{name}"].SetInParent()


class RDT(Strict):
    """The class of service of Intel RDT, and its schemata: `rdt.clos_id = "gold"`."""

    clos_id = _word()
    enable_monitoring = Value[bool]("True or False", lambda on: on in (True, False))

    @property
    def schemata(self) -> Sequence[str]:
        """The lines of the class's `schemata` file: `rdt.schemata = ["L3:0=ff"]`."""
        lines: Sequence[str] = self.message.schemata.value
        return lines

    @schemata.setter
    def schemata(self, lines: Sequence[str]) -> None:
        self.message.schemata.value[:] = texts("schemata", lines)

    def forget(self) -> None:
        """Forgets what earlier plugins have set, before what is set here."""
        self.message.remove = True


class _Limits(Strict):
    """The limits that a container is created with, and that it can be updated to."""

    blockio_class = _word("linux.resources.blockio_class")
    rdt_class = _word("linux.resources.rdt_class")

    def __init__(self, message: Any) -> None:
        resources: api.LinuxResources = message.linux.resources
        self.cpu = CPU(resources.cpu)
        self.memory = Memory(resources.memory)
        self.hugepages = HugePages("hugepages", resources.hugepage_limits, "page_size", NOT_REMOVABLE)
        self.unified = Names("unified", resources.unified, NOT_REMOVABLE)
        super().__init__(message)


class Update(_Limits):
    """Changes of another container, or of the one that is updated: `Update("ID").cpu.shares = 2`.

    The message goes into the response, `response.update.append(update.message)`, or to `Plugin.update_containers`.
    """

    message: api.ContainerUpdate
    """NRI's message."""

    refused: ClassVar[dict[str, str]] = {"pids_limit": "containerd's updates do not carry it"}
    ignore_failure = Value[bool]("True or False", lambda on: on in (True, False))
    """Whether the event goes on if the update fails."""

    def __init__(self, container_id: str) -> None:
        """Takes the id of the container."""
        super().__init__(api.ContainerUpdate(container_id=named("container_id", container_id)))


class Adjustment(_Limits):
    """Changes of a container that is being created."""

    message: api.ContainerAdjustment
    """NRI's message, also for changes that have no helper."""

    pids_limit = _some("linux.resources.pids.limit")
    oom_score_adj = Value[int]("-1000 to 1000", range(-1000, 1001).__contains__, "linux.oom_score_adj")
    cgroups_path = _word("linux.cgroups_path")

    def __init__(self, message: api.ContainerAdjustment | None = None) -> None:
        """Takes the message to write, `Adjustment(response.adjust)`; by default a new one."""
        message = api.ContainerAdjustment() if message is None else message
        linux = message.linux
        self.annotations = Names("annotations", message.annotations)
        self.env = Env("env", message.env, "key", _REPLACED)
        self.mounts = Mounts("mounts", message.mounts, "destination")
        self.hooks = Hooks(message)
        self.rlimits = Rlimits("rlimits", message.rlimits, "type", NOT_REMOVABLE)
        self.devices = Devices("devices", linux.devices, "path", _REPLACED)
        self.sysctl = Names("sysctl", linux.sysctl)
        self.namespaces = Namespaces("namespaces", linux.namespaces, "type")
        self.net_devices = NetDevices(linux.net_devices)
        self.rdt = RDT(linux.rdt)
        super().__init__(message)

    @property
    def args(self) -> Sequence[str]:
        """The command and its arguments, if they are set here."""
        return self.message.args

    @args.setter
    def args(self, words: Sequence[str]) -> None:
        if not texts("args", words) or not words[0]:
            raise ValueError(f"args: {words!r}: runtimes take no arguments as no change")
        self.message.args[:] = words

    def add_cdi_device(self, name: str) -> None:
        """Injects a CDI device: `add_cdi_device("nvidia.com/gpu=0")`."""
        self.message.CDI_devices.add(name=named("CDI_devices", name, "[^/=]+/[^/=]+=.+", "VENDOR/CLASS=DEVICE"))

    def set_scheduler(
        self, policy: str, *, nice: int = 0, priority: int = 0, flags: Sequence[str] = (),
        runtime: int = 0, deadline: int = 0, period: int = 0,
    ) -> None:  # fmt: skip
        """Sets the scheduling of the process: `set_scheduler("SCHED_BATCH", nice=10)`.

        `policy` and `flags` have the words of `api.LinuxScheduler`; the last three are nanoseconds of SCHED_DEADLINE.
        Raises ValueError for what the kernel refuses with this policy (sched_setattr(2)).
        """
        one_of("scheduler", policy, api.LinuxSchedulerPolicy.keys())
        for flag in texts("scheduler", flags):
            one_of("scheduler", flag, api.LinuxSchedulerFlag.keys())
        given: dict[str, Any] = {"nice": nice, "priority": priority}
        given |= {"runtime": runtime, "deadline": deadline, "period": period}
        takes = _SCHEDULING.get(policy, ())
        for name, value in given.items():
            if value and name not in takes:
                raise ValueError(f"scheduler: {policy} has no {name}")
        if nice not in _NICE:
            raise ValueError(f"scheduler: nice: {nice} is not -20 to 19")
        if "priority" in takes and priority not in _PRIORITY:
            raise ValueError(f"scheduler: priority: {priority} is not 1 to 99")
        if "runtime" in takes and not 0 < runtime <= deadline <= period:
            raise ValueError("scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period")
        given |= {"policy": policy, "flags": flags}
        self.message.linux.scheduler.CopyFrom(api.LinuxScheduler(**given))

    def set_io_priority(self, class_: str, priority: int = 0) -> None:
        """Sets the I/O priority of the process, 0 (the highest) to 7: `set_io_priority("IOPRIO_CLASS_BE", 6)`."""
        one_of("io_priority", class_, api.IOPrioClass.keys())
        if priority not in _IO_PRIORITY:
            raise ValueError(f"io_priority: {priority} is not 0 to 7")
        made: dict[str, Any] = {"class": class_, "priority": priority}
        self.message.linux.io_priority.CopyFrom(api.LinuxIOPriority(**made))

    def set_memory_policy(self, mode: str, nodes: str = "", flags: Sequence[str] = ()) -> None:
        """Sets the NUMA policy of the process's memory: `set_memory_policy("MPOL_BIND", "0-1")`."""
        one_of("memory_policy", mode, api.MpolMode.keys())
        for flag in texts("memory_policy", flags):
            one_of("memory_policy", flag, api.MpolFlag.keys())
        if nodes:
            named("memory_policy", nodes, "[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", "NUMA nodes such as 0-1,3")
        made: dict[str, Any] = {"mode": mode, "nodes": nodes, "flags": flags}
        self.message.linux.memory_policy.CopyFrom(api.LinuxMemoryPolicy(**made))

    def set_seccomp(self, profile: Mapping[str, Any]) -> None:
        """Sets the seccomp policy: `linux.seccomp` of an OCI specification, as `json.load` returns it.

        Raises ValueError for a key that the specification does not have, and for a missing `defaultAction`.
        """
        made = api.LinuxSeccomp()
        _fill("seccomp", made, profile, _SECCOMP)
        if not made.default_action:
            raise ValueError("seccomp: no defaultAction")
        self.message.linux.seccomp_policy.CopyFrom(made)


_NICE, _PRIORITY, _IO_PRIORITY = range(-20, 20), range(1, 100), range(8)
_SCHEDULING = {
    **dict.fromkeys(("SCHED_OTHER", "SCHED_BATCH"), ("nice",)),
    **dict.fromkeys(("SCHED_FIFO", "SCHED_RR"), ("priority",)),
    "SCHED_DEADLINE": ("runtime", "deadline", "period"),
}
"""What each policy of sched_setattr(2) takes."""
_SECCOMP = {
    "defaultAction": "default_action",
    "defaultErrnoRet": "default_errno",
    "architectures": "architectures",
    "flags": "flags",
    "listenerPath": "listener_path",
    "listenerMetadata": "listener_metadata",
    "syscalls": "syscalls",
    "names": "names",
    "action": "action",
    "errnoRet": "errno_ret",
    "args": "args",
    "index": "index",
    "value": "value",
    "valueTwo": "value_two",
    "op": "op",
}
"""The fields of NRI's messages for the keys of the OCI specification (config-linux.md, Seccomp)."""


def _fill(place: str, message: Any, values: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    """Fills a message, and those in it, with the values of an object of JSON."""
    for key, value in values.items():
        field = message.DESCRIPTOR.fields_by_name.get(fields.get(key, ""))
        if field is None:
            known = [one for one, name in fields.items() if name in message.DESCRIPTOR.fields_by_name]
            raise ValueError(f"{place}: unknown key {key!r}; did you mean `{nearest(key, known, 0)}`?")
        if not field.is_repeated:
            one = getattr(message, field.name)
            setattr(
                one if isinstance(one, Message) else message, "value" if isinstance(one, Message) else field.name, value
            )
        elif field.message_type is None:
            getattr(message, field.name)[:] = texts(f"{place}.{key}", value)
        else:
            for number, part in enumerate(value):
                _fill(f"{place}.{key}[{number}]", getattr(message, field.name).add(), part, fields)
