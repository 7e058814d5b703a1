"""Plugins made with the stub under NRI's own runtime: coroutines, and joining again when the runtime restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter.errors import AdapterError
from adapter.nri import Context, Plugin, api, serve

from .build import NEWEST
from .harness import PATIENT, GoRuntime

POD = {"id": "pod", "name": "p", "namespace": "default"}
CONTAINER = {"id": "ctr", "pod_sandbox_id": "pod", "name": "c"}
NAME = "40-agent"


class Agent(Plugin):
    """Answers from coroutines."""

    reserve = 1.5  # seconds; half of what an impatient runtime waits

    def __init__(self) -> None:
        self.joined = threading.Semaphore(0)
        self.gate = asyncio.Event()

    async def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse:
        await asyncio.sleep(0)
        response = api.CreateContainerResponse()
        response.adjust.env.add(key="MOOD", value="fine")
        return response

    async def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        await self.gate.wait()

    async def on_join(self) -> None:
        self.joined.release()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Serves in a thread, from before there is a runtime until after the last one."""
    made = Agent()
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(made, "agent", "40", str(tmp_path / "nri.sock"), reconnect=True))

    def whole() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=whole)
    thread.start()
    yield made
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


def test_a_plugin_with_coroutines_serves_every_runtime_that_comes(agent: Agent, tmp_path: Path, version: str) -> None:
    for host, end in (("", "stop"), ("again", "kill")):
        with GoRuntime(tmp_path, version) as runtime:
            runtime.open(host=host, **PATIENT)
            assert runtime.play("start", host=host).error == ""
            assert runtime.play("wait", host=host, plugin=NAME).error == ""
            created: Any = runtime.event("CreateContainer", POD, CONTAINER, host=host)
            assert (created.error, created.names) == ("", [NAME])
            assert created.adjust["env"] == [{"key": "MOOD", "value": "fine"}]
            assert agent.joined.acquire(timeout=60)
            wanted = [api.ContainerUpdate(container_id="ctr")]  # between two events
            if version == NEWEST:
                assert agent.update_containers(wanted).result(60) == []
                (((update,),),) = (runtime.play("updates", host=host).updates,)
                assert update["container_id"] == "ctr"
            else:
                with pytest.raises(AdapterError, match="may deadlock"):
                    agent.update_containers(wanted)
            if end == "kill":
                runtime.kill()


@pytest.mark.deadline
def test_a_late_coroutine_costs_its_own_event_alone_where_a_late_plugin_is_dropped(
    agent: Agent, tmp_path: Path
) -> None:
    with GoRuntime(tmp_path, "v0.8.0") as runtime:
        runtime.open(**PATIENT)
        runtime.play("start")
        runtime.play("wait", plugin=NAME)
        with runtime.impatient(3_000):
            late = runtime.event("StartContainer", POD, CONTAINER)
        assert "start_container has not answered in" in late.error
        assert late.names == [NAME]
