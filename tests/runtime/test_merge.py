"""Several plugins' answers made into one. What is a conflict, and what the next plugin sees, without the Go peers."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from adapter.nri import api
from adapter.runtime.merge import Conflict, Merge

Json = dict[str, Any]
A, B, C = "00-a", "10-b", "20-c"

CONTAINER: Json = {
    "id": "ctr",
    "args": ["sleep"],
    "env": ["PATH=/bin", "FOO=1"],
    "annotations": {"k": "own"},
    "mounts": [{"destination": "/m", "source": "/own"}],
    "linux": {
        "devices": [{"path": "/dev/own"}],
        "namespaces": [{"type": "network", "path": "/own"}],
        "sysctl": {"k": "own"},
        "resources": {"memory": {"limit": {"value": "1"}}},
    },
}


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


@pytest.mark.parametrize(("setting", "field"), SETTINGS, ids=[field for _, field in SETTINGS])
def test_no_two_plugins_set_the_same(setting: Json, field: str) -> None:
    with pytest.raises(Conflict) as conflict:
        adjusted(creation(), setting, {}, setting)
    assert str(conflict.value) == f'plugins "{C}" and "{A}" both tried to set {field}'


@pytest.mark.parametrize(("setting", "field"), SETTINGS, ids=[field for _, field in SETTINGS])
def test_what_one_plugin_sets_is_the_result_and_has_its_owner(setting: Json, field: str) -> None:
    merge = adjusted(creation(), {}, setting)
    assert as_json(merge.adjust) == setting
    owners = merge.owners.message().owners["ctr"]
    name, _, key = field.partition(" ")
    number = api.Field.Value(name)
    assert (owners.compound[number].owners[key] if key else owners.simple[number]) == B


NOT_SHOWN = {"CdiDevices", "MemoryPolicy", "RdtClosID", "RdtSchemata", "RdtEnableMonitoring"}


@pytest.mark.parametrize(("setting", "field"), SETTINGS, ids=[field for _, field in SETTINGS])
def test_the_next_plugin_sees_what_was_set_but_for_what_upstream_forgets(setting: Json, field: str) -> None:
    assert (shown(adjusted(creation({"id": "ctr"}), setting)) != shown(creation({"id": "ctr"}))) is (
        field.partition(" ")[0] not in NOT_SHOWN
    )


def test_different_things_go_together() -> None:
    merge = creation()
    for number, (setting, _) in enumerate(SETTINGS):
        merge.apply(f"{number:02}-p", ParseDict({"adjust": setting}, api.CreateContainerResponse()))
    missing = [field for setting, field in SETTINGS if not contains(as_json(merge.adjust), setting)]
    assert not missing


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    return bool(whole == part)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (
            {"annotations": {"k": "a"}},
            {"annotations": {"-k": "", "k": "b"}},
            {"annotations": {"-k": "", "k": "b"}},
        ),
        (
            {"mounts": [{"destination": "/m", "source": "a"}]},
            {"mounts": [{"destination": "-/m"}, {"destination": "/m", "source": "b"}]},
            {"mounts": [{"destination": "/m", "source": "b"}]},
        ),
        (
            {"env": [{"key": "E", "value": "a"}]},
            {"env": [{"key": "E", "value": "b"}, {"key": "-E"}]},
            {"env": [{"key": "E", "value": "b"}]},
        ),
        ({"args": ["a"]}, {"args": ["", "b", "c"]}, {"args": ["b", "c"]}),
        (
            linux(devices=[{"path": "/d", "major": "1"}]),
            linux(devices=[{"path": "-/d"}, {"path": "/d", "major": "2"}]),
            linux(devices=[{"path": "/d", "major": "2"}]),
        ),
        (linux(sysctl={"k": "a"}), linux(sysctl={"-k": "", "k": "b"}), linux(sysctl={"-k": "", "k": "b"})),
        (
            linux(net_devices={"e": {"name": "a"}}),
            linux(net_devices={"-e": {}, "e": {"name": "b"}}),
            linux(net_devices={"-e": {}, "e": {"name": "b"}}),
        ),
        (
            linux(rdt={"clos_id": {"value": "a"}, "schemata": {"value": ["a"]}}),
            linux(rdt={"remove": True, "clos_id": {"value": "b"}}),
            linux(rdt={"clos_id": {"value": "b"}}),
        ),
        (linux(rdt={"clos_id": {"value": "a"}}), linux(rdt={"remove": True}), linux(rdt={"remove": True})),
    ],
    ids=["annotation", "mount", "env", "args", "device", "sysctl", "net device", "rdt", "rdt, nothing instead"],
)
def test_what_is_removed_first_may_be_set_anew(first: Json, second: Json, result: Json) -> None:
    merge = adjusted(creation(), first, second)
    assert as_json(merge.adjust) == result
    with pytest.raises(Conflict, match=f'plugins "{C}" and "{B}" both'):
        merge.apply(C, ParseDict({"adjust": first}, api.CreateContainerResponse()))


def test_a_removed_namespace_can_not_be_set_anew() -> None:
    removal = linux(namespaces=[{"type": "-network"}])
    merge = adjusted(creation(), removal)
    assert "namespaces" not in shown(merge)["linux"]
    with pytest.raises(Conflict, match="Namespace network"):
        adjusted(creation(), removal, linux(namespaces=[{"type": "network"}]))


def test_a_mere_removal_of_a_mount_or_an_annotation_arrives_and_one_of_a_variable_or_a_device_does_not() -> None:
    removals: Json = {"annotations": {"-k": ""}, "mounts": [{"destination": "-/m"}]}
    lost: Json = {"env": [{"key": "-FOO"}], **linux(devices=[{"path": "-/dev/own"}])}
    merge = adjusted(creation(), removals | lost)
    assert as_json(merge.adjust) == removals
    container = shown(merge)
    assert container["annotations"] == {"k": "own"}, "upstream shows it to the next plugin all the same"
    assert "mounts" not in container
    assert container["env"] == ["PATH=/bin"]
    assert "devices" not in container["linux"]


def test_what_another_plugin_has_merely_removed_can_be_set_if_it_was_the_containers_own() -> None:
    merge = adjusted(creation(), {"mounts": [{"destination": "-/m"}]}, {"mounts": [{"destination": "/m"}]})
    assert as_json(merge.adjust) == {"mounts": [{"destination": "-/m"}, {"destination": "/m"}]}


def test_nobody_can_set_what_was_removed_of_another_plugin() -> None:
    with pytest.raises(Conflict, match=f'plugins "{C}" and "{B}" both tried to set Mounts /m'):
        adjusted(
            creation(),
            {"mounts": [{"destination": "/m"}]},
            {"mounts": [{"destination": "-/m"}]},
            {"mounts": [{"destination": "/m"}]},
        )


def test_a_plugin_is_in_conflict_with_itself_if_it_says_two_things() -> None:
    with pytest.raises(Conflict, match=f'plugins "{A}" and "{A}" both tried to set Env FOO'):
        adjusted(creation(), {"env": [{"key": "FOO", "value": "1"}, {"key": "FOO", "value": "2"}]})


def test_the_next_plugin_sees_the_container_as_it_is_by_then() -> None:
    merge = adjusted(
        creation(),
        {
            "args": ["run"],
            "env": [{"key": "FOO", "value": "a=b"}],
            "mounts": [{"destination": "/m", "source": "/a"}],
            "annotations": {"n": "a"},
            "rlimits": [{"type": "RLIMIT_CORE"}],
            "hooks": {"poststop": [{"path": "/bin/true"}]},
            **linux(
                namespaces=[{"type": "network", "path": "/a"}],
                resources={"memory": {"swap": {"value": "5"}}, "devices": [{"access": "rwm"}]},
            ),
        },
    )
    assert shown(merge) == {
        "id": "ctr",
        "args": ["run"],
        "env": ["PATH=/bin", "FOO=a=b"],
        "mounts": [{"destination": "/m", "source": "/a"}],
        "annotations": {"k": "own", "n": "a"},
        "rlimits": [{"type": "RLIMIT_CORE"}],
        "hooks": {"poststop": [{"path": "/bin/true"}]},
        "linux": {
            "devices": [{"path": "/dev/own"}],
            "namespaces": [{"type": "network", "path": "/a"}],
            "sysctl": {"k": "own"},
            "resources": {
                "memory": {"limit": {"value": "1"}, "swap": {"value": "5"}},
                "cpu": {},
                "devices": [{"access": "rwm"}],
            },
        },
    }


def test_a_limit_of_zero_replaces_another_one() -> None:
    merge = adjusted(creation(), resources(memory={"limit": {}}))
    assert shown(merge)["linux"]["resources"]["memory"] == {"limit": {}}


def test_plugins_find_empty_messages_where_a_container_has_nothing() -> None:
    resources_: Json = {"memory": {}, "cpu": {}}
    assert shown(creation({"id": "ctr"})) == {"id": "ctr", "hooks": {}, "linux": {"resources": resources_}}
    assert as_json(updating().request)["linux_resources"] == resources_


def test_evictions_are_dropped() -> None:
    merge = stopping()
    merge.apply(A, api.StopContainerResponse())
    merge.apply(B, ParseDict({"evict": [{"container_id": "x"}]}, api.UpdateContainerResponse()))
    assert merge.update == []


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


def limit(value: int) -> Json:
    return {"limit": {"value": str(value)}}


def updated(merge: Merge, response: type[Message], *updates: list[Json]) -> list[Json]:
    for plugin, some in zip((A, B, C), updates, strict=False):
        merge.apply(plugin, ParseDict({"update": some}, response()))
    return [as_json(one) for one in merge.update]


def stopping() -> Merge:
    return Merge(api.StopContainerRequest(container=api.Container(id="ctr")))


def updating(**requested: Any) -> Merge:
    request = {"container": {"id": "ctr"}, "linux_resources": requested}
    return Merge(ParseDict(request, api.UpdateContainerRequest()))


def test_updates_of_another_container_are_put_together_in_the_order_in_which_they_came_up() -> None:
    found = updated(
        stopping(),
        api.StopContainerResponse,
        [update("z", memory=limit(1)), update("y")],
        [update("z", cpu={"cpus": "0"})],
    )
    assert [one["container_id"] for one in found] == ["z", "y"]
    assert found[0]["linux"]["resources"] == {"memory": limit(1), "cpu": {"cpus": "0"}}


def test_no_two_plugins_set_the_same_of_another_container() -> None:
    with pytest.raises(Conflict, match=f'plugins "{B}" and "{A}" both tried to set MemLimit'):
        updated(stopping(), api.StopContainerResponse, [update(memory=limit(1))], [update(memory=limit(1))])


def test_an_update_that_may_fail_is_left_out_as_a_whole_if_it_is_in_conflict() -> None:
    found = updated(
        stopping(),
        api.StopContainerResponse,
        [update(memory=limit(1))],
        [update(memory=limit(2), cpu={"cpus": "0"}, ignore=True)],
    )
    assert found == [{"container_id": "other", "linux": {"resources": {"memory": limit(1)}}}]


def test_what_a_failed_update_had_claimed_stays_its_plugins() -> None:
    with pytest.raises(Conflict, match=f'plugins "{C}" and "{B}" both tried to set MemLimit'):
        updated(
            stopping(),
            api.StopContainerResponse,
            [update(cpu={"cpus": "0"})],
            [update(memory=limit(2), cpu={"cpus": "1"}, ignore=True)],
            [update(memory=limit(3))],
        )


def test_an_update_may_fail_only_if_all_say_so() -> None:
    found = updated(
        stopping(), api.StopContainerResponse, [update(ignore=True)], [update("x", ignore=True), update(ignore=False)]
    )
    assert [(one["container_id"], one.get("ignore_failure", False)) for one in found] == [("other", False), ("x", True)]


def test_the_container_that_is_being_created_can_not_be_updated() -> None:
    with pytest.raises(Conflict, match=f'plugin "{A}" asked update of "ctr" during creation'):
        updated(creation(), api.CreateContainerResponse, [update("ctr", ignore=True)])
    assert updated(creation(), api.CreateContainerResponse, [update("other", memory=limit(1))])


def test_a_plugins_answer_overrides_what_was_requested_and_comes_last() -> None:
    merge = updating(memory=limit(1), cpu={"cpus": "0"})
    found = updated(merge, api.UpdateContainerResponse, [update("ctr", memory=limit(2)), update("x")])
    assert [one["container_id"] for one in found] == ["x", "ctr"]
    assert found[1]["linux"]["resources"] == {"memory": limit(2), "cpu": {"cpus": "0"}}
    assert as_json(merge.request)["linux_resources"] == {"memory": limit(2), "cpu": {"cpus": "0"}}, "the next sees it"


def test_a_request_that_nobody_changes_brings_no_update() -> None:
    assert updated(updating(memory=limit(1)), api.UpdateContainerResponse, [], []) == []


def test_a_requested_limit_of_processes_counts_as_set_by_the_first_plugin_that_answers() -> None:
    merge = updating(pids={"limit": "7"})
    found = updated(merge, api.UpdateContainerResponse, [update("ctr", pids={"limit": "9"})])
    assert found[0]["linux"]["resources"]["pids"] == {"limit": "7"}
    with pytest.raises(Conflict, match="PidsLimit"):
        merge.apply(B, ParseDict({"update": [update("ctr", memory=limit(1))]}, api.UpdateContainerResponse()))


def test_other_events_have_nothing_to_merge() -> None:
    merge = Merge(api.StartContainerRequest())
    merge.apply(A, api.StartContainerResponse())
    assert (merge.adjust, merge.update) == (None, [])
