"""What pod authors may ask the samples for: nothing but what the node's administrator lists in conf.allow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .plugins import code, event, run, sample

DEVICE = "- {path: /dev/null, type: b, major: 8, minor: 0}"
BIND = "- {destination: /host, source: %s, type: bind, options: [%s]}"
# A kind of annotation, its value, and how conf.allow lists what it asks for.
ASKED = [
    ("devices", DEVICE, "b 8:0"),
    ("devices", "- {path: /dev/x, type: c, major: 1, minor: 3}", "c 1:3"),
    ("devices", "- {path: /dev/x}", " 0:0"),
    ("mounts", BIND % ("/", "rbind, rw"), "rw /"),
    ("mounts", BIND % ("/", ""), "rw /"),
    ("mounts", BIND % ("/", "ro"), "ro /"),
    ("mounts", BIND % ("/", "ro, rw"), "rw /"),
    ("mounts", "- {destination: /host, source: /, options: [ro, rbind]}", "ro /"),
    ("mounts", "- {destination: /host, source: /srv, type: tmpfs, options: [bind]}", "rw /srv"),
    ("mounts", "- {destination: /tmp, type: tmpfs}", "tmpfs"),
    ("cdi-devices", "- vendor.com/gpu=0", "vendor.com/gpu=0"),
    ("network-devices", "- {hostIf: eth0, name: e}", "eth0"),
    ("sysctl", "kernel.core_pattern: x", "kernel.core_pattern"),
    ("memory-policy", "mode: MPOL_BIND", "MPOL_BIND"),
    ("io-priority", "class: IOPRIO_CLASS_RT", "IOPRIO_CLASS_RT"),
    ("scheduling-policy", "policy: SCHED_FIFO", "SCHED_FIFO"),
]
INJECTOR, ADJUSTER, CLEARCFS = (code(plugin) for plugin in ("device-injector", "ulimit-adjuster", "clearcfs"))
TMPFS = "- {destination: /x, type: tmpfs, options: ['%s']}"


def inject(kind: str, annotation: str, **conf: Any) -> Any:
    annotations = {f"{kind}.noderesource.dev/container.web": annotation}
    return INJECTOR["invoke"](event(annotations, **conf))


def refused(kind: str, reason: str) -> Any:
    return pytest.raises(
        ValueError, match=f"^{re.escape(f'annotation {kind}.noderesource.dev/container.web: {reason}')}$"
    )


def test_what_is_asked_for_is_granted_if_it_is_listed_by_its_kind_and_its_whole_name(subtests: pytest.Subtests) -> None:
    for kind, annotation, name in ASKED:
        others = {other: [name] for other, _, _ in ASKED if other != kind}
        near = {**others, kind: [name[:-1], name + "0", name.upper() + "x", 5, None]}
        with subtests.test(kind, name=name):
            conf: dict[str, Any]
            for conf in ({}, {"color": "red"}, {"allow": {}}, {"allow": {"namespaces": ["default"]}}, {"allow": near}):
                with refused(kind, f"conf.allow.{kind} does not list {json.dumps(name)}"):
                    inject(kind, annotation, **conf)
            granted = inject(kind, annotation, allow={kind: ["another", name]})
            assert granted == inject(kind, annotation, allow="everything")
            assert granted["adjust"]


def test_a_host_path_is_allowed_as_it_is_written_only() -> None:
    for source in ("/srv/data/..", "/srv/data/link", "/srv/data/", "//srv/data", "srv/data", "/srv/./data", "/srv"):
        with refused("mounts", f'conf.allow.mounts does not list "ro {source}"'):
            inject("mounts", BIND % (source, "ro"), allow={"mounts": ["ro /srv/data"]})


def test_other_types_of_mounts_can_only_be_had_with_everything() -> None:
    for kind in ("overlay", "ext4", "proc", "", "ro /srv"):
        annotation = f"- {{destination: /x, source: /, type: '{kind}'}}"
        with refused("mounts", f'only conf.allow "everything" allows the type of mount {json.dumps(kind)}'):
            inject("mounts", annotation, allow={"mounts": [kind, "ro /srv", "rw /"]})


@pytest.mark.parametrize("mount", ["source: /srv, type: bind", "type: tmpfs"])
def test_an_option_that_reaches_beyond_its_mount_can_only_be_had_with_everything(mount: str) -> None:
    for option in (
        "rrw",  # runc undoes `ro` for it, behind the mount
        "remount",  # runc changes what is mounted at the destination already, such as a read-only /sys
        *("shared", "rshared", "unbindable"),
        *("suid", "rsuid", "dev", "idmap", "tmpcopyup", "ro,rw", "RO", "", "size=1,remount", "x-ro"),
    ):
        annotation = f"- {{destination: /x, {mount}, options: [ro, '{option}']}}"
        with refused("mounts", f'only conf.allow "everything" allows the option of a mount {json.dumps(option)}'):
            inject("mounts", annotation, allow={"mounts": ["ro /srv", "rw /srv", "tmpfs"]})
        assert inject("mounts", annotation, allow="everything")["adjust"], option


def test_an_option_that_concerns_its_mount_alone_needs_no_entry() -> None:
    for option in ("rbind", "ro", "rro", "nosuid", "noexec", "rslave", "private", "relatime"):
        assert inject("mounts", BIND % ("/srv", f"ro, {option}"), allow={"mounts": ["ro /srv"]})["adjust"], option
    for option in ("size=64m", "size=50%", "mode=1777", "nr_inodes=4k", "uid=0", "gid=5"):  # its size and owner
        assert inject("mounts", TMPFS % option, allow={"mounts": ["tmpfs"]})["adjust"], option


REMOVALS = {
    "devices": "- {path: '-/dev/x', type: c, major: 1, minor: 3}",
    "mounts": "- {destination: '-/dev/x', source: /srv, type: bind}",
    "network-devices": "- {hostIf: '-/dev/x', name: e}",
    "sysctl": "'-/dev/x': 1",
    "cdi-devices": "- '-/dev/x'",
}


def test_nothing_is_removed_whatever_is_allowed(subtests: pytest.Subtests) -> None:
    """A name that begins with `-` is NRI's mark of a removal."""
    for kind, annotation in REMOVALS.items():
        for allow in ("everything", {kind: ["c 1:3", "rw /srv", "-/dev/x"]}):
            with subtests.test(kind), refused(kind, '"-/dev/x" begins with `-`, which removes something in NRI'):
                inject(kind, annotation, allow=allow)


def test_a_long_annotation_is_refused_before_it_is_read() -> None:
    """To refuse many quotes took the square of their number: 2 s for 250 KB, of the event's time."""
    with refused("devices", "16385 characters, at most 16384"):
        inject("devices", '"' * 16385, allow="everything")
    with pytest.raises(ValueError, match="250000 characters, at most 16384"):
        limit('"' * 250_000, allow="everything")
    assert not inject("devices", "#" * 16384, allow="everything").get("adjust")


def test_one_thing_too_many_fails_the_whole() -> None:
    with refused("sysctl", 'conf.allow.sysctl does not list "b"'):
        inject("sysctl", "a: 1\nb: 1", allow={"sysctl": ["a"]})


def test_a_list_of_namespaces_is_about_the_pods() -> None:
    for namespaces in ([], ["other"]):
        with refused("sysctl", 'conf.allow.namespaces does not list "default"'):
            inject("sysctl", "a: 1", allow={"sysctl": ["a"], "namespaces": namespaces})
    assert inject("sysctl", "a: 1", allow={"sysctl": ["a"], "namespaces": ["other", "default"]})["adjust"]
    nobody = event({"sysctl.noderesource.dev": "a: 1"}, allow={"sysctl": ["a"], "namespaces": ["default"]})
    del nobody["pod"]["namespace"]
    with pytest.raises(ValueError, match=r"conf\.allow\.namespaces does not list null"):
        INJECTOR["invoke"](nobody)


def test_a_mistake_in_the_lists_grants_nothing() -> None:
    for allow in (None, "all", ["sysctl"], {"sysctl": "a"}):
        with refused("sysctl", 'conf.allow must be "everything" or an object of lists'):
            inject("sysctl", "a: 1", allow=allow)
    with refused("sysctl", "conf.allow.sysctls is not a kind of annotation"):
        inject("sysctl", "a: 1", allow={"sysctls": ["a"], "sysctl": ["a"]})


def test_a_container_that_asks_for_too_much_gets_a_result_with_an_error_and_no_change() -> None:
    answer = run("device-injector", event({"mounts.noderesource.dev/pod": BIND % ("/", "rbind, rw")}))
    reason = 'annotation mounts.noderesource.dev/pod: conf.allow.mounts does not list "rw /"'
    answer.is_error("device-injector", reason)


# ---- ulimit-adjuster

LIMITS = "ulimits.noderesource.dev/container.web"


def limit(annotation: str, **conf: Any) -> Any:
    return ADJUSTER["invoke"](event({LIMITS: annotation}, **conf))


NO_OBJECT = 'conf.allow must be "everything" or an object of types and their highest limits'


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({}, "RLIMIT_NOFILE: conf.allow has no such limit, not 4096"),
        ({"allow": {"nproc": 2**64 - 1}}, "RLIMIT_NOFILE: conf.allow has no such limit, not 4096"),
        ({"allow": {"nofile": 4095}}, "RLIMIT_NOFILE: conf.allow has 4095, not 4096"),
        ({"allow": {"nofiles": 1}}, '"nofiles" is not the type of a limit'),
        ({"allow": ["nofile"]}, NO_OBJECT),
        ({"allow": {"nofile": "9999"}}, NO_OBJECT),
        ({"allow": {"nofile": True}}, NO_OBJECT),
    ],
)
def test_a_limit_higher_than_the_highest_is_refused(conf: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^annotation {LIMITS}: {re.escape(reason)}$"):
        limit("- {type: nofile, hard: 4096}", **conf)


def test_a_limit_up_to_the_highest_is_set() -> None:
    wanted = limit("- {type: nofile, soft: 5, hard: 4096}", allow="everything")
    assert wanted["spec"]["process"]["rlimits"] == [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 5}]
    for kind in ("nofile", "RLIMIT_NOFILE", "NoFile"):
        for most in (4096, 2**64 - 1):
            assert limit("- {type: nofile, soft: 5, hard: 4096}", allow={kind: most}) == wanted, (kind, most)


def test_of_several_limits_each_counts() -> None:
    with pytest.raises(ValueError, match=r"RLIMIT_CORE: conf\.allow has 0, not 1"):
        limit("- {type: nofile, hard: 1}\n- {type: core, hard: 1}", allow={"nofile": 1, "core": 0})


# ---- clearcfs


def clear(root: Path, **conf: Any) -> str:
    """Returns what is left of a quota of 50000, and why if the plugin fails."""
    request = sample("create-container", cgroupRoot=str(root), **conf)
    quota = root / "cpu" / request["spec"]["cgroupsPath"].lstrip("/") / "cpu.cfs_quota_us"
    quota.parent.mkdir(parents=True, exist_ok=True)
    quota.write_text("50000")
    # An annotation may be the pod author's.
    request["spec"]["annotations"] |= {"io.kubernetes.pod.namespace": "trading", "qos.class": "ls"}
    try:
        CLEARCFS["invoke"](request)
    except ValueError as error:
        return f"{quota.read_text()}: {error}"
    return str(quota.read_text().strip())


def test_the_quota_of_a_pod_in_a_listed_namespace_goes_and_of_others_stays(tmp_path: Path) -> None:
    for allow in ("everything", {"namespaces": ["default"]}, {"namespaces": ["a", "default"]}):
        assert clear(tmp_path, allow=allow) == "-1"
    conf: dict[str, Any]
    for conf in ({}, {"allow": {}}, {"allow": {"namespaces": []}}, {"allow": {"namespaces": ["trading"]}}):
        left = '50000: qos.class is ls: conf.allow.namespaces does not list "default"'
        assert clear(tmp_path, **conf) == left
    for wrong in (None, "default", ["default"], {"namespaces": "default"}, {"namespaces": None}):
        assert clear(tmp_path, allow=wrong) == '50000: conf.allow must be "everything" or {"namespaces": [...]}'
