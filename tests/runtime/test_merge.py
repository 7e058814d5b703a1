"""Several plugins' answers made into one, field by field. tests/peers/test_merge_oracle.py asks Go about all else."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from adapter.nri import api
from adapter.runtime.merge import Conflict, Merge

Json = dict[str, Any]
A, B, C = "00-a", "10-b", "20-c"

CONTAINER: Json = {"id": "ctr", "args": ["sleep"], "env": ["PATH=/bin", "FOO=1"], "annotations": {"k": "own"},
    "mounts": [{"destination": "/m", "source": "/own"}],
    "linux": {"devices": [{"path": "/dev/own"}], "namespaces": [{"type": "network", "path": "/own"}],
    "sysctl": {"k": "own"}, "resources": {"memory": {"limit": {"value": "1"}}}}}  # fmt: skip


def creation(container: Json = CONTAINER) -> Merge:
    return Merge(ParseDict({"container": container}, api.CreateContainerRequest()))


def adjusted(merge: Merge, *adjustments: Json) -> Merge:
    """Lets the plugins a, b and c answer these."""
    for plugin, adjustment in zip((A, B, C), adjustments, strict=False):
        merge.apply(plugin, ParseDict({"adjust": adjustment}, api.CreateContainerResponse()))
    return merge


def as_json(message: Message | None) -> Json:
    return MessageToDict(message, preserving_proto_field_name=True) if message is not None else {}


def shown(merge: Merge) -> Json:
    container = as_json(merge.request)["container"]
    assert isinstance(container, dict)
    return container


def linux(**fields: Any) -> Json:
    return {"linux": fields}


def resources(**fields: Any) -> Json:
    return linux(resources=fields)


# Each sets one thing; what it is called in the text of a conflict.
SETTINGS: list[tuple[Json, str]] = [
    ({"annotations": {"k": "v"}}, "Annotations k"),
    ({"mounts": [{"destination": "/m"}]}, "Mounts /m"),
    ({"env": [{"key": "FOO", "value": "2"}]}, "Env FOO"),
    ({"args": ["x"]}, "Args"),
    ({"rlimits": [{"type": "RLIMIT_CORE"}]}, "Rlimits RLIMIT_CORE"),
    ({"CDI_devices": [{"name": "v/c=d"}]}, "CdiDevices v/c=d"),
    (linux(devices=[{"path": "/dev/x"}]), "Devices /dev/x"),
    (linux(cgroups_path="/x"), "CgroupsPath"),
    (linux(oom_score_adj={}), "OomScoreAdj"),
    (linux(io_priority={"priority": 1}), "IoPriority"),
    (linux(seccomp_policy={"default_action": "x"}), "SeccompPolicy"),
    (linux(namespaces=[{"type": "network"}]), "Namespace network"),
    (linux(sysctl={"k": "v"}), "Sysctl k"),
    (linux(net_devices={"eth0": {"name": "eth1"}}), "LinuxNetDevices eth0"),
    (linux(scheduler={"nice": 1}), "LinuxSched"),
    (linux(memory_policy={"nodes": "0"}), "MemoryPolicy"),
    (linux(rdt={"clos_id": {"value": "x"}}), "RdtClosID"),
    (linux(rdt={"schemata": {"value": ["x"]}}), "RdtSchemata"),
    (linux(rdt={"enable_monitoring": {}}), "RdtEnableMonitoring"),
    (resources(memory={"limit": {}}), "MemLimit"),
    (resources(memory={"reservation": {}}), "MemReservation"),
    (resources(memory={"swap": {}}), "MemSwapLimit"),
    (resources(memory={"kernel": {}}), "MemKernelLimit"),
    (resources(memory={"kernel_tcp": {}}), "MemTCPLimit"),
    (resources(memory={"swappiness": {}}), "MemSwappiness"),
    (resources(memory={"disable_oom_killer": {}}), "MemDisableOomKiller"),
    (resources(memory={"use_hierarchy": {}}), "MemUseHierarchy"),
    (resources(cpu={"shares": {}}), "CPUShares"),
    (resources(cpu={"quota": {}}), "CPUQuota"),
    (resources(cpu={"period": {}}), "CPUPeriod"),
    (resources(cpu={"realtime_runtime": {}}), "CPURealtimeRuntime"),
    (resources(cpu={"realtime_period": {}}), "CPURealtimePeriod"),
    (resources(cpu={"cpus": "0"}), "CPUSetCPUs"),
    (resources(cpu={"mems": "0"}), "CPUSetMems"),
    (resources(pids={}), "PidsLimit"),
    (resources(hugepage_limits=[{"page_size": "2MB"}]), "HugepageLimits 2MB"),
    (resources(unified={"memory.max": "1"}), "CgroupsUnified memory.max"),
    (resources(blockio_class={}), "BlockioClass"),
    (resources(rdt_class={}), "RdtClass"),
]


NOT_SHOWN = {"CdiDevices", "MemoryPolicy", "RdtClosID", "RdtSchemata", "RdtEnableMonitoring"}
"""What upstream forgets to show to the next plugin."""


def test_what_one_plugin_sets_is_the_result_has_its_owner_is_shown_to_the_next_and_set_by_no_other() -> None:
    together = creation()
    for number, (setting, field) in enumerate(SETTINGS):
        merge = adjusted(creation(), {}, setting)
        assert as_json(merge.adjust) == setting
        name, _, key = field.partition(" ")
        owners, of_field = merge.owners.message().owners["ctr"], api.Field.Value(name)
        assert (owners.compound[of_field].owners[key] if key else owners.simple[of_field]) == B, field
        bare = creation({"id": "ctr"})
        assert (shown(adjusted(creation({"id": "ctr"}), setting)) != shown(bare)) is (name not in NOT_SHOWN), field
        with pytest.raises(Conflict) as conflict:
            adjusted(creation(), setting, {}, setting)
        assert str(conflict.value) == f'plugins "{C}" and "{A}" both tried to set {field}'
        together.apply(f"{number:02}-p", ParseDict({"adjust": setting}, api.CreateContainerResponse()))
    assert [field for setting, field in SETTINGS if not contains(as_json(together.adjust), setting)] == []


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    return bool(whole == part)


def mount(*destinations: str) -> Json:
    return {"mounts": [{"destination": one} for one in destinations]}


# fmt: off
# What is removed first may be set anew. What two plugins say, and what comes of it; the third can set it no more.
ANEW: list[tuple[Json, Json, Json]] = [
    ({"annotations": {"k": "a"}}, {"annotations": {"-k": "", "k": "b"}}, {"annotations": {"-k": "", "k": "b"}}),
    (mount("/m"), mount("-/m", "/m"), mount("/m")),
    ({"env": [{"key": "E", "value": "a"}]}, {"env": [{"key": "E", "value": "b"}, {"key": "-E"}]},
     {"env": [{"key": "E", "value": "b"}]}),
    ({"args": ["a"]}, {"args": ["", "b", "c"]}, {"args": ["b", "c"]}),
    (linux(devices=[{"path": "/d", "major": "1"}]), linux(devices=[{"path": "-/d"}, {"path": "/d", "major": "2"}]),
     linux(devices=[{"path": "/d", "major": "2"}])),
    (linux(sysctl={"k": "a"}), linux(sysctl={"-k": "", "k": "b"}), linux(sysctl={"-k": "", "k": "b"})),
    (linux(net_devices={"e": {"name": "a"}}), linux(net_devices={"-e": {}, "e": {"name": "b"}}),
     linux(net_devices={"-e": {}, "e": {"name": "b"}})),
    (linux(rdt={"clos_id": {"value": "a"}, "schemata": {"value": ["a"]}}),
     linux(rdt={"remove": True, "clos_id": {"value": "b"}}), linux(rdt={"clos_id": {"value": "b"}})),
    (linux(rdt={"clos_id": {"value": "a"}}), linux(rdt={"remove": True}), linux(rdt={"remove": True})),
    # What another one has set and a second has removed nobody can set.
    (mount("/m"), mount("-/m"), mount("-/m")),
]
CONFLICTS: list[tuple[list[Json], str]] = [
    ([linux(namespaces=[{"type": "-network"}]), linux(namespaces=[{"type": "network"}])],
     f'plugins "{B}" and "{A}" both tried to set Namespace network'),
    ([{"env": [{"key": "FOO", "value": "1"}, {"key": "FOO", "value": "2"}]}],
     f'plugins "{A}" and "{A}" both tried to set Env FOO'),
]
# fmt: on


def test_what_is_removed_first_may_be_set_anew() -> None:
    for first, second, result in ANEW:
        merge = adjusted(creation(), first, second)
        assert as_json(merge.adjust) == result
        with pytest.raises(Conflict, match=f'plugins "{C}" and "{B}" both'):
            merge.apply(C, ParseDict({"adjust": first}, api.CreateContainerResponse()))
    for adjustments, text in CONFLICTS:
        with pytest.raises(Conflict) as conflict:
            adjusted(creation(), *adjustments)
        assert str(conflict.value) == text


def test_a_mere_removal_of_a_mount_or_an_annotation_arrives_and_one_of_a_variable_or_a_device_does_not() -> None:
    removals: Json = {"annotations": {"-k": ""}, **mount("-/m")}
    lost = {"env": [{"key": "-FOO"}], **linux(devices=[{"path": "-/dev/own"}], namespaces=[{"type": "-network"}])}
    merge = adjusted(creation(), removals | lost)
    assert as_json(merge.adjust) == removals | linux(namespaces=[{"type": "-network"}])
    container = shown(merge)
    assert container["annotations"] == {"k": "own"}, "upstream shows it to the next plugin all the same"
    assert (container.get("mounts"), container["env"]) == (None, ["PATH=/bin"])
    assert container["linux"].keys() == {"sysctl", "resources"}
    merge = adjusted(creation(), mount("-/m"), mount("/m"))
    assert as_json(merge.adjust) == mount("-/m", "/m"), "the container's own can be set anew"


def test_plugins_find_empty_messages_where_a_container_has_nothing() -> None:
    resources_: Json = {"memory": {}, "cpu": {}}
    assert shown(creation({"id": "ctr"})) == {"id": "ctr", "hooks": {}, "linux": {"resources": resources_}}
    assert as_json(updating().request)["linux_resources"] == resources_
    merge = adjusted(creation(), resources(memory={"limit": {}}))
    assert shown(merge)["linux"]["resources"]["memory"] == {"limit": {}}, "a limit of zero is one"


def test_hooks_of_all_plugins_are_run_in_their_order() -> None:
    hooks = [{"hooks": {"poststop": [{"path": f"/{name}"}]}} for name in "abc"]
    merge = adjusted(creation(), *hooks)
    assert as_json(merge.adjust)["hooks"]["poststop"] == [{"path": "/a"}, {"path": "/b"}, {"path": "/c"}]
    assert merge.owners.message().owners["ctr"].simple[api.OciHooks] == f"{A},{B},{C}"


def test_the_request_itself_stays_as_it_is() -> None:
    request = ParseDict({"container": CONTAINER}, api.CreateContainerRequest())
    before = request.SerializeToString(deterministic=True)
    adjusted(Merge(request), SETTINGS[0][0])
    assert request.SerializeToString(deterministic=True) == before


# ---- updates


def update(id_: str = "other", *, ignore: bool = False, **fields: Any) -> Json:
    return {"container_id": id_, "linux": {"resources": fields}, "ignore_failure": ignore}


def memory(value: int) -> Json:
    return {"memory": {"limit": {"value": str(value)}}}


CPU: Json = {"cpu": {"cpus": "0"}}


def updated(merge: Merge, response: type[Message], *updates: list[Json]) -> list[tuple[str, Json, bool]]:
    """What comes of updates that the plugins a, b and c ask for: containers, resources, whether it may fail."""
    for plugin, some in zip((A, B, C), updates, strict=False):
        merge.apply(plugin, ParseDict({"update": some}, response()))
    found = [as_json(one) for one in merge.update]
    return [(one["container_id"], one["linux"]["resources"], one.get("ignore_failure", False)) for one in found]


def stopping() -> Merge:
    return Merge(api.StopContainerRequest(container=api.Container(id="ctr")))


def updating(**requested: Any) -> Merge:
    request = {"container": {"id": "ctr"}, "linux_resources": requested}
    return Merge(ParseDict(request, api.UpdateContainerRequest()))


UPDATES: list[tuple[list[list[Json]], list[tuple[str, Json, bool]] | str]] = [
    # They are put together in the order in which they came up.
    ([[update("z", **memory(1)), update("y")], [update("z", **CPU)]],
        [("z", memory(1) | CPU, False), ("y", {}, False)]),
    ([[update(**memory(1))], [update(**memory(1))]], f'plugins "{B}" and "{A}" both tried to set MemLimit'),
    # One that may fail is left out as a whole if it is in conflict; what it had claimed stays its plugin's.
    ([[update(**memory(1))], [update(**memory(2), **CPU, ignore=True)]], [("other", memory(1), False)]),
    ([[update(**CPU)], [update(**memory(2), **CPU, ignore=True)], [update(**memory(3))]],
        f'plugins "{C}" and "{B}" both tried to set MemLimit'),
    # It may fail only if all say so.
    ([[update(ignore=True)], [update("x", ignore=True), update()]], [("other", {}, False), ("x", {}, True)]),
]  # fmt: skip


def test_updates_of_another_container_are_put_together_or_in_conflict() -> None:
    for updates, expected in UPDATES:
        try:
            assert updated(stopping(), api.StopContainerResponse, *updates) == expected
        except Conflict as conflict:
            assert str(conflict) == expected  # noqa: PT017 - either stands in the table


def test_the_container_that_is_being_created_can_not_be_updated() -> None:
    with pytest.raises(Conflict, match=f'plugin "{A}" asked update of "ctr" during creation'):
        updated(creation(), api.CreateContainerResponse, [update("ctr", ignore=True)])
    assert updated(creation(), api.CreateContainerResponse, [update("other", **memory(1))])


def test_a_plugins_answer_overrides_what_was_requested_and_comes_last() -> None:
    merge = updating(**memory(1), **CPU)
    found = updated(merge, api.UpdateContainerResponse, [update("ctr", **memory(2)), update("x")])
    assert found == [("x", {}, False), ("ctr", memory(2) | CPU, False)]
    assert as_json(merge.request)["linux_resources"] == memory(2) | CPU, "the next sees it"
    assert updated(updating(**memory(1)), api.UpdateContainerResponse, [], []) == []


def test_a_requested_limit_of_processes_counts_as_set_by_the_first_plugin_that_answers() -> None:
    merge = updating(pids={"limit": "7"})
    found = updated(merge, api.UpdateContainerResponse, [update("ctr", pids={"limit": "9"})])
    assert found[0][1]["pids"] == {"limit": "7"}
    with pytest.raises(Conflict, match="PidsLimit"):
        merge.apply(B, ParseDict({"update": [update("ctr", **memory(1))]}, api.UpdateContainerResponse()))


def test_evictions_and_answers_to_other_events_come_to_nothing() -> None:
    merge = stopping()
    merge.apply(A, api.StopContainerResponse())
    merge.apply(B, ParseDict({"evict": [{"container_id": "x"}]}, api.UpdateContainerResponse()))
    assert merge.update == []
    merge = Merge(api.StartContainerRequest())
    merge.apply(A, api.StartContainerResponse())
    assert (merge.adjust, merge.update) == (None, [])
