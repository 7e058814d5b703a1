"""Writes adjustments of containers by assignment: `adjust.env["A"] = "1"`, `adjust.cpu.shares = 2`.

What NRI cannot express, and what runtimes would drop, raises an error at once, so that its traceback names the line.
Which runtimes honour a change is in the comments of NRI's messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from nri.fields import Elements, Names, Strict, Value, absolute, named, text, texts
from nri.proto import nri_pb2 as api

Stage: TypeAlias = Literal["prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop"]

_NOT_FORWARDED = "NRI does not forward its removal; one of an earlier plugin can be replaced"
_KEPT = "NRI can change it but not remove it"


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

    refused = dict.fromkeys(api.LinuxMemory.DESCRIPTOR.fields_by_name, "runtimes change only the limit of memory")
    limit = _limit()


class Adjustment(Strict):
    """Changes of a container that is being created."""

    message: api.ContainerAdjustment
    """NRI's message, also for changes that have no helper."""

    pids_limit = _some("linux.resources.pids.limit")
    oom_score_adj = Value[int]("-1000 to 1000", range(-1000, 1001).__contains__, "linux.oom_score_adj")
    cgroups_path = _word("linux.cgroups_path")
    blockio_class = _word("linux.resources.blockio_class")
    rdt_class = _word("linux.resources.rdt_class")

    def __init__(self, message: api.ContainerAdjustment | None = None) -> None:
        """Takes the message to write, `Adjustment(response.adjust)`; by default a new one."""
        message = api.ContainerAdjustment() if message is None else message
        linux, resources = message.linux, message.linux.resources
        self.annotations = Names("annotations", message.annotations)
        self.env = Env("env", message.env, "key", _NOT_FORWARDED)
        self.mounts = Mounts("mounts", message.mounts, "destination")
        self.hooks = Hooks(message)
        self.rlimits = Rlimits("rlimits", message.rlimits, "type", _KEPT)
        self.devices = Devices("devices", linux.devices, "path", _NOT_FORWARDED)
        self.sysctl = Names("sysctl", linux.sysctl)
        self.cpu = CPU(resources.cpu)
        self.memory = Memory(resources.memory)
        self.unified = Names("unified", resources.unified, _KEPT)
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
