"""Containers whose creation plugins take part in."""

from __future__ import annotations

import json
from typing import Any

from adapter.nri import api
from adapter.settings import PluginSettings

from .node import Answer, Node, a_container, a_pod


def configured(node: Node, *events: str, plugins: str = "a b", **own: Any) -> Node:
    """A node whose plugins are configured for these events."""
    settings = {name: PluginSettings(events=frozenset(events), **own) for name in plugins.split()}
    node.build(plugins=settings)
    return node


def container(id_: str = "c1", **fields: Any) -> api.Container:
    made = a_container(id_, env=["PATH=/bin", "A=1"], args=["sleep", "9"], **fields)
    made.annotations["zone"] = "a"
    made.pid = 0
    return made


def creating(node: Node, id_: str = "c1", within: float = 2.0) -> Answer:
    request = api.CreateContainerRequest(pod=a_pod(), container=container(id_))
    return node.handle("CreateContainer", request, within)


def saying(**result: object) -> str:
    """A plugin's script that prints a result."""
    return f"printf '%s' '{json.dumps(result)}'"


def created(node: Node, id_: str = "c1") -> api.ContainerAdjustment:
    answer = creating(node, id_)
    node.wait(answer)
    assert answer.outcome == "ok"
    return api.ContainerAdjustment() if answer.reply is None else answer.reply.adjust
