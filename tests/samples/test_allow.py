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
    ("devices", "- {path: /dev/x}", " 0:0"),
    ("mounts", BIND % ("/", "rbind, rw"), "rw /"),
    ("mounts", BIND % ("/", "ro"), "ro /"),
    ("mounts", BIND % ("/", "ro, rw"), "rw /"),
    ("mounts", "- {destination: /host, source: /srv, type: tmpfs, options: [bind]}", "rw /srv"),
    ("mounts", "- {destination: /tmp, type: tmpfs}", "tmpfs"),
    ("cdi-devices", "- vendor.com/gpu=0", "vendor.com/gpu=0"),
    ("network-devices", "- {hostIf: eth0, name: e}", "eth0"),
    ("sysctl", "kernel.core_pattern: x", "kernel.core_pattern"),
    ("memory-policy", "mode: MPOL_BIND", "MPOL_BIND"),
    ("io-priority", "class: IOPRIO_CLASS_RT", "IOPRIO_CLASS_RT"),
    ("scheduling-policy", "policy: SCHED_FIFO", "SCHED_FIFO"),
]
INJECTOR, ADJUSTER = (code(plugin)["invoke"] for plugin in ("device-injector", "ulimit-adjuster"))


def inject(kind: str, annotation: str, **conf: Any) -> Any:
    return INJECTOR(event({f"{kind}.noderesource.dev/container.web": annotation}, **conf))


def refused(kind: str, reason: str) -> Any:
    whole = f"annotation {kind}.noderesource.dev/container.web: {reason}"
    return pytest.raises(ValueError, match=f"^{re.escape(whole)}$")


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


HARMLESS = ("rbind", "ro", "rro", "nosuid", "noexec", "rslave", "private", "relatime")
SIZES = ("size=64m", "size=50%", "mode=1777", "nr_inodes=4k", "uid=0", "gid=5")
REACHING = (
    "rrw",  # runc undoes `ro` for it, behind the mount
    "remount",  # runc changes what is mounted at the destination already, such as a read-only /sys
    *("shared", "rshared", "unbindable", "suid", "rsuid", "dev", "idmap", "tmpcopyup", "ro,rw", "RO", ""),
    *("size=1,remount", "x-ro"),
)


def test_a_host_path_is_allowed_as_it_is_written_and_what_reaches_beyond_its_mount_with_everything_only() -> None:
    for source in ("/srv/data/..", "/srv/data/link", "/srv/data/", "//srv/data", "srv/data", "/srv/./data", "/srv"):
        with refused("mounts", f'conf.allow.mounts does not list "ro {source}"'):
            inject("mounts", BIND % (source, "ro"), allow={"mounts": ["ro /srv/data"]})
    lists = {"mounts": ["ro /srv", "rw /srv", "tmpfs", "rw /"]}
    for kind in ("overlay", "ext4", "proc", "", "ro /srv"):
        with refused("mounts", f'only conf.allow "everything" allows the type of mount {json.dumps(kind)}'):
            inject("mounts", f"- {{destination: /x, source: /, type: '{kind}'}}", allow=lists)
    for mount, options in (("source: /srv, type: bind", HARMLESS), ("type: tmpfs", (*HARMLESS[1:], *SIZES))):
        annotation = f"- {{destination: /x, {mount}, options: [ro, '%s']}}"
        for option in options:
            assert inject("mounts", annotation % option, allow=lists)["adjust"], option
        for option in REACHING:
            with refused("mounts", f'only conf.allow "everything" allows the option of a mount {json.dumps(option)}'):
                inject("mounts", annotation % option, allow=lists)
            assert inject("mounts", annotation % option, allow="everything")["adjust"], option


REMOVALS = {
    **{"devices": "- {path: '-/dev/x', type: c, major: 1, minor: 3}", "network-devices": "- {hostIf: '-/dev/x'}"},
    **{"mounts": "- {destination: '-/dev/x', source: /srv, type: bind}"},
    **{"sysctl": "'-/dev/x': 1", "cdi-devices": "- '-/dev/x'"},
}


def test_nothing_is_removed_whatever_is_allowed() -> None:
    """A name that begins with `-` is NRI's mark of a removal."""
    for kind, annotation in REMOVALS.items():
        for allow in ("everything", {kind: ["c 1:3", "rw /srv", "-/dev/x"]}):
            with refused(kind, '"-/dev/x" begins with `-`, which removes something in NRI'):
                inject(kind, annotation, allow=allow)


def test_a_long_annotation_is_refused_before_it_is_read() -> None:
    """To refuse many quotes took the square of their number: 2 s for 250 KB, of the event's time."""
    with refused("devices", "16385 characters, at most 16384"):
        inject("devices", '"' * 16385, allow="everything")
    with pytest.raises(ValueError, match="250000 characters, at most 16384"):
        limit('"' * 250_000, allow="everything")
    assert not inject("devices", "#" * 16384, allow="everything").get("adjust")


def test_one_thing_too_many_a_pod_elsewhere_or_a_mistake_in_the_lists_fails_the_whole() -> None:
    wrong = 'conf.allow must be "everything" or an object of lists'
    elsewhere = 'conf.allow.namespaces does not list "default"'
    allow: Any
    for allow, reason in (
        ({"sysctl": ["a"]}, 'conf.allow.sysctl does not list "b"'),
        *(({"sysctl": ["a", "b"], "namespaces": listed}, elsewhere) for listed in ([], ["other"])),
        *((mistake, wrong) for mistake in (None, "all", ["sysctl"], {"sysctl": "a"})),
        ({"sysctls": ["a"], "sysctl": ["a", "b"]}, "conf.allow.sysctls is not a kind of annotation"),
    ):
        with refused("sysctl", reason):
            inject("sysctl", "a: 1\nb: 1", allow=allow)
    allowed: Any = {"sysctl": ["a"], "namespaces": ["other", "default"]}
    assert inject("sysctl", "a: 1", allow=allowed)["adjust"]
    nobodys = event({"sysctl.noderesource.dev": "a: 1"}, allow=allowed)
    del nobodys["pod"]["namespace"]
    reason = "annotation sysctl.noderesource.dev: conf.allow.namespaces does not list null"
    run("device-injector", nobodys).is_error("device-injector", reason)


# ---- ulimit-adjuster

LIMITS = "ulimits.noderesource.dev/container.web"
NO_OBJECT = 'conf.allow must be "everything" or an object of types and their highest limits'
REFUSED_LIMITS: list[tuple[dict[str, Any], str]] = [
    ({}, "RLIMIT_NOFILE: conf.allow has no such limit, not 4096"),
    ({"allow": {"nproc": 2**64 - 1}}, "RLIMIT_NOFILE: conf.allow has no such limit, not 4096"),
    ({"allow": {"nofile": 4095}}, "RLIMIT_NOFILE: conf.allow has 4095, not 4096"),
    ({"allow": {"nofile": 4096, "core": 0}}, "RLIMIT_CORE: conf.allow has 0, not 1"),
    ({"allow": {"nofiles": 1}}, '"nofiles" is not the type of a limit'),
    *(({"allow": mistake}, NO_OBJECT) for mistake in (["nofile"], {"nofile": "9999"}, {"nofile": True})),
]


def limit(annotation: str, **conf: Any) -> Any:
    return ADJUSTER(event({LIMITS: annotation}, **conf))


def test_limits_up_to_the_highest_are_set_and_one_that_is_higher_is_refused() -> None:
    for conf, reason in REFUSED_LIMITS:
        with pytest.raises(ValueError, match=f"^annotation {LIMITS}: {re.escape(reason)}$"):
            limit("- {type: nofile, hard: 4096}\n- {type: core, hard: 1}", **conf)
    wanted = limit("- {type: nofile, soft: 5, hard: 4096}", allow="everything")
    assert wanted["spec"]["process"]["rlimits"] == [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 5}]
    for kind in ("nofile", "RLIMIT_NOFILE", "NoFile"):
        for most in (4096, 2**64 - 1):
            assert limit("- {type: nofile, soft: 5, hard: 4096}", allow={kind: most}) == wanted, (kind, most)


# ---- clearcfs


def clear(root: Path, **conf: Any) -> str:
    """Returns what is left of a quota of 50000, and why if the plugin fails."""
    request = sample("create-container", cgroupRoot=str(root), **conf)
    quota = root / "cpu" / request["spec"]["cgroupsPath"].lstrip("/") / "cpu.cfs_quota_us"
    quota.parent.mkdir(parents=True, exist_ok=True)
    quota.write_text("50000")
    # An annotation may be the pod author's.
    request["spec"]["annotations"] |= {"io.kubernetes.pod.namespace": "trading", "qos.class": "ls"}
    answer = run("clearcfs", request)
    return f"{quota.read_text().strip()}: {answer.result['error']}"


def test_the_quota_of_a_pod_in_a_listed_namespace_goes_and_of_others_stays(tmp_path: Path) -> None:
    unlisted = '50000: qos.class is ls: conf.allow.namespaces does not list "default"'
    wrong = '50000: conf.allow must be "everything" or {"namespaces": [...]}'
    lists: dict[str, list[Any]] = {
        "-1: ": ["everything", {"namespaces": ["default"]}, {"namespaces": ["a", "default"]}],
        unlisted: [{}, {"namespaces": []}, {"namespaces": ["trading"]}],
        wrong: [None, "default", ["default"], {"namespaces": "default"}, {"namespaces": None}],
    }
    assert clear(tmp_path) == unlisted
    for left, allowed in lists.items():
        for allow in allowed:
            assert clear(tmp_path, allow=allow) == left, allow
