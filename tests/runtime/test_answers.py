"""What plugins answer becomes one adjustment, one update, one verdict."""

from __future__ import annotations

import pytest

from adapter.nri import api

from .fixtures import CONTAINER, CREATE, Plugins

# Sets an annotation of its own and another one's, and says which variables it sees.
ADJUSTS = """
class Mine(Plugin):
    def create_container(self, request, context):
        adjust = api.ContainerAdjustment(annotations={{{key!r}: " ".join(request.container.env)}})
        adjust.env.add(key={key!r}, value={name!r})
        return api.CreateContainerResponse(adjust=adjust, update=[api.ContainerUpdate(container_id={name!r})])
run(Mine())
"""

VALIDATES = """
class Judge(Plugin):
    def configure(self, request, context):
        return api.ConfigureResponse(events=events.mask(["ValidateContainerAdjustment"]))
    def validate_container_adjustment(self, request, context):
        seen = [one.index + one.name for one in request.plugins], dict(request.adjust.annotations), len(request.update)
        owner = request.owners.owners["ctr"].compound[api.Annotations].owners["by"]
        reason = f"{{seen}} {{owner}} {{list(request.container.env)}}"
        return api.ValidateContainerAdjustmentResponse(reject={reject}, reason=reason)
run(Judge())
"""


def test_what_plugins_want_of_a_container_is_merged_and_each_sees_what_the_earlier_ones_did(plugins: Plugins) -> None:
    for name, key in (("10-a", "a"), ("20-b", "b")):
        plugins.write(name, ADJUSTS.format(name=name, key=key))
    runtime = plugins.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.adjust is not None
    assert dict(outcome.adjust.annotations) == {"a": "", "b": "a=10-a"}
    assert [(variable.key, variable.value) for variable in outcome.adjust.env] == [("a", "10-a"), ("b", "20-b")]
    assert [update.container_id for update in outcome.update] == ["10-a", "20-b"]


def test_plugins_that_set_the_same_fail_the_creation_and_stay(plugins: Plugins) -> None:
    for name in ("10-a", "20-b", "30-c"):
        plugins.write(name, ADJUSTS.format(name=name, key="by"))
    runtime = plugins.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.error == 'plugins "20-b" and "10-a" both tried to set Annotations by'
    assert outcome.adjust is None
    assert [answer.plugin for answer in outcome.answers] == ["10-a", "20-b"], "nobody is asked any more"
    assert len(runtime.plugins) == 3


def test_plugins_change_what_an_update_asks_for(plugins: Plugins) -> None:
    source = """
    class Mine(Plugin):
        def update_container(self, request, context):
            response = api.UpdateContainerResponse()
            update = response.update.add(container_id=request.container.id)
            setattr(update.linux.resources.cpu, {field!r}, {field!r} + request.linux_resources.cpu.cpus)
            return response
    run(Mine())
    """
    plugins.write("10-a", source.format(field="cpus"))
    plugins.write("20-b", source.format(field="mems"))
    runtime = plugins.start()
    request = api.UpdateContainerRequest(container=CONTAINER)
    request.linux_resources.cpu.cpus = "0"
    (update,) = runtime.event("UpdateContainer", request).update
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("ctr", "cpus0")
    assert update.linux.resources.cpu.mems == "memscpus0"
    assert request.linux_resources.cpu.cpus == "0", "whoever asked keeps the request"


@pytest.mark.parametrize("reject", [False, True])
def test_a_validator_judges_what_the_others_want(plugins: Plugins, reject: bool) -> None:
    plugins.write("10-a", ADJUSTS.format(name="10-a", key="by"))
    plugins.write("20-judge", VALIDATES.format(reject=reject))
    runtime = plugins.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert bool(outcome.error) is reject
    if reject:
        seen = "(['10a', '20judge'], {'by': ''}, 1) 10-a []"
        assert outcome.error == f"validator 20-judge rejected container adjustment, reason: {seen}"


def test_a_validator_that_fails_fails_the_creation(plugins: Plugins) -> None:
    source = VALIDATES.format(reject=False).replace("seen = ", "raise RuntimeError('confused')\n        seen = ")
    runtime, _ = plugins.launch("00-judge", source)
    assert runtime.event("CreateContainer", CREATE).error == "validator plugin 00-judge failed: confused"
