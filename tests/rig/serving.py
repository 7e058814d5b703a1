"""Parts of an adapter without what lies around it: no daemon, no directory, no other adapter, no hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nri import Context, Deferred, api
from nri.runtimes import Runtime
from v010_adapter.events.serving import Serving
from v010_adapter.events.turns import Turns
from v010_adapter.legacy.pending_updates import OnUpdated
from v010_adapter.settings import LegacySettings, Settings
from v010_adapter.state.runtime_directory import RuntimeDirectory


class Nowhere(RuntimeDirectory):
    """Is in memory."""

    is_marked = False

    def __init__(self) -> None:
        super().__init__("/nowhere", "")
        self._files: dict[str, bytes] = {}

    def open(self) -> bool:
        return False

    def names(self, prefix: str, *, is_alone: bool) -> list[str]:
        return [name for name in self._files if name.startswith(prefix)]

    def read(self, name: str) -> bytes | None:
        return self._files.get(name)

    def replace(self, name: str, text: bytes) -> None:
        self._files[name] = text
        if not text:
            del self._files[name]

    def mark(self) -> None:
        pass


class Alone(Turns):
    """Each event is its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Nowhere(), clock)

    def look(self) -> bool:
        return False


def kill(*adapters: Turns) -> None:
    """What the kernel does at the end of adapters that are killed: it closes what they have open, with its locks."""
    for turns in adapters:
        turns._file.close()
        turns.directory.close()


class Link:
    """In place of the daemon around an adapter: there is no process and no connection."""

    runtime_pid = 0

    def on_joined(self) -> None:
        pass

    def on_bug(self, error: Exception) -> None:
        raise error

    def on_served(self, is_ours: bool) -> None:
        pass

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        raise AssertionError("no runtime takes updates here")

    def keep_configuration(self, text: str, socket: str) -> None:
        pass


class PluginServing(Serving):
    """Serves events with legacy plugins alone; `serve` tells it of each answer, as the stub does."""

    def __init__(
        self, loop: Any, legacy: LegacySettings, turns: Turns, host_root: str = "/", holder: Any = None
    ) -> None:
        self.link = Link()
        make_holder = None if holder is None else lambda: holder
        super().__init__(loop, Settings(legacy=legacy, host_root=host_root), turns, self.link, make_holder)

    def set_runtime(self, runtime: Runtime, *, pid: int = 0, with_hooks: bool = False) -> None:
        self.link.runtime_pid = pid
        super().set_runtime(runtime, with_hooks=with_hooks)

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        self.on_synchronize(api.SynchronizeRequest(pods=pods, containers=containers))

    def serve(self, request: Any, context: Context) -> Any:
        """Returns the answer to an event, maybe a Deferred; it has been sent when the caller gets it."""
        sent: Deferred[Any] = Deferred()
        try:
            answer = self.on_event(request, context)
        except Exception:
            context.status = 2
            self.on_answered(context)
            raise

        def send(reply: Any, error: Exception | None) -> None:
            context.status = 0 if error is None else 2
            sent.complete(reply, error)
            self.on_answered(context)

        if isinstance(answer, Deferred):
            answer.then(send)
            return sent
        self.on_answered(context)
        return answer
