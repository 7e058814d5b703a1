"""What stands in for the daemon around an adapter: there is no process and no connection."""

from __future__ import annotations

import os

from nri import api
from v010_adapter.legacy.pending_updates import OnUpdated


class Link:
    """Remembers what the adapter asks for."""

    runtime_pid = os.getpid()

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    def on_joined(self) -> None:
        pass

    def on_served(self, is_ours: bool) -> None:
        pass

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        raise AssertionError("no runtime takes updates here")

    def keep_configuration(self, text: str, socket: str) -> None:
        self.kept.append((text, socket))
