"""The legacy plugins of a node: what conf.json names, where the programs are, and which of them the runtime runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri.errors import let_go_of_frames
from nri.runtimes import Runtime
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.host import paths
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.legacy.config import ConfigFile, Entry, read
from v010_adapter.legacy.find import Programs
from v010_adapter.legacy.plan import Plans
from v010_adapter.legacy.sandboxes import Sandboxes
from v010_adapter.settings import LegacySettings


class LegacyPlugins:
    """The legacy plugins, by the settings, conf.json and the runtime."""

    def __init__(self, settings: LegacySettings, host_root: str = "/") -> None:
        self.settings = settings
        self.conf_json = ConfigFile(settings.config, trust=settings.trust)
        self.programs = Programs(settings.path, settings.environment, settings.trust)
        self.warned: set[str] = set()
        """The plugins about which the log has a warning: they ask for changes that they may not make."""
        self.logged_at: dict[str, float] = {}
        """The time of the last log line about a plugin whose delete cannot be started while no event waits for it."""
        self._host_root = host_root
        self.set_runtime(Runtime(), pid=0)

    def set_runtime(self, runtime: Runtime, pid: int) -> None:
        """Learns which runtime this is, and its pid (0: unknown)."""
        self.runtime = runtime
        self.sees_pods = bool(pid)
        """Whether this process and the runtime are in one pid namespace, so that pids of pods mean the same here."""
        self.sandboxes = Sandboxes(self.settings, self._host_root, runtime, pid)
        self.plans = Plans(self.settings, reports_ends=not runtime.habits.no_ends)

    def entries(self) -> Sequence[Entry] | None:
        """Looks at conf.json, as at every event at which a plugin may run; None if no version of it can be used."""
        try:
            return self.conf_json.current().entries
        except ConfigError as error:
            let_go_of_frames(error)  # it is kept: `conf_json.error`
            return None  # it has been logged

    def faults(self) -> Iterator[str]:
        """Yields what is wrong with the lists of plugins, also with the runtime's own, and with each listed program."""
        if fault := self.sandboxes.fault():
            yield fault
        entries = self.entries() or ()
        if self.conf_json.fault:
            yield self.conf_json.fault
        for type_ in dict.fromkeys(entry.type for entry in entries):
            try:
                path = self.programs.program(type_).path
            except PluginError as error:
                yield str(error)
            else:
                if fault := programs_namespace.call(paths.start_fault, path):
                    yield str(PluginError(type_, f"{path} {fault}"))


def unfit(settings: LegacySettings) -> str:
    """Returns why creates would fail here whatever their pods are; empty if they would not.

    Logs nothing, unlike `LegacyPlugins`: an adapter that waits beside another one asks twice a second.
    """
    conf_json = read(settings.config, settings.trust)
    if conf_json.error is not None:
        return str(conf_json.error) if settings.fail_create else ""
    programs = Programs(settings.path, settings.environment, settings.trust)
    for entry in conf_json.config.entries:
        if settings.of(entry.type, "fail_create"):
            try:
                programs.program(entry.type)
            except PluginError as error:
                return str(error)
    return ""
