"""The keys of the configuration: the check of each value, its default, and its meaning."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from nri import DEFAULT_SOCKET
from nri.events import BY_EVENT
from v010_adapter.host.mount_namespace import OWN
from v010_adapter.host.trust import off, strict

DEFAULT_CONF_JSON = "/etc/nri/conf.json"
MAX_LIMIT, MAX_HELD = 90.0, 32
"""Maximum seconds of a hold, and maximum number of holds. They are those of `nri.holding`, which is loaded late."""
MAX_STANDBY = 100
"""Maximum number of processes of one program that stand by. A larger number is taken as a mistake."""

MAX_TIMEOUT = 1_000_000_000
"""Maximum seconds of a hook's timeout. In runc, a value about nine times as large overflows."""

Check: TypeAlias = Callable[[Any], Any]
"""Returns the setting for a YAML value. Raises an exception whose text says what is wrong."""


def _must(be: str, test: Callable[[Any], bool], convert: Check = lambda value: value) -> Check:
    def check(value: Any) -> Any:
        if not test(value):
            raise ValueError(f"must be {be}")
        return convert(value)

    return check


def _auto_or(be: str, test: Callable[[Any], bool], convert: Check = lambda value: value) -> Check:
    return _must(f"auto, {be}", lambda v: v == "auto" or test(v), lambda v: None if v == "auto" else convert(v))


def _one_of(*words: str, convert: Check = lambda word: word) -> Check:
    return _must(f"one of {', '.join(words)}", lambda value: value in words, convert)


def _is_text(value: Any) -> bool:
    """Whether a value can be passed to the system. Raises UnicodeEncodeError for a lone surrogate."""
    return isinstance(value, str) and b"\0" not in os.fsencode(value)


def _is_path(value: Any) -> bool:
    return _is_text(value) and value.startswith("/")


def _is_list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


_boolean = _must("true or false", lambda value: isinstance(value, bool))
_auto = _auto_or("true or false", lambda value: isinstance(value, bool))
_trust = _must(
    "strict or off",
    lambda value: value is False or value in ("strict", "off"),  # YAML reads a bare `off` as false
    lambda value: strict if value == "strict" else off,
)
_fails = _one_of("fail", "ignore", convert=lambda word: word == "fail")
_seconds = _must("a number of seconds, 0 or more", _is_duration, float)
_age = _must("a number of seconds, 1 or more", lambda value: _is_duration(value) and value >= 1, float)
_processes = _must(f"a number of processes, 0 to {MAX_STANDBY}", lambda v: type(v) is int and 0 <= v <= MAX_STANDBY)
_auto_seconds = _auto_or("or a number of seconds, 0 or more", _is_duration, float)
_hold_after = _must(
    "auto, never, or a number of seconds, 0 or more",
    lambda value: value in ("auto", "never") or _is_duration(value),
    lambda value: None if value == "never" else float("inf") if value == "auto" else float(value),
)
_hold_limit = _must(
    f"a number of seconds, 1 to {MAX_LIMIT:g}", lambda v: _is_duration(v) and 1 <= v <= MAX_LIMIT, float
)
_at_once = _must(f"a number of containers, 1 to {MAX_HELD}", lambda v: type(v) is int and 1 <= v <= MAX_HELD)
_whole_seconds = _must(
    f"whole seconds, 0 to {MAX_TIMEOUT}", lambda value: type(value) is int and 0 <= value <= MAX_TIMEOUT
)
_text = _must("a text without a NUL character", _is_text)
_path = _must("an absolute path without a NUL character", _is_path)
_paths = _must("a list of absolute paths without NUL characters", _is_list_of(_is_path), tuple)
_word = _must("a word of ASCII characters", lambda v: _is_text(v) and bool(re.fullmatch("[!-~]*", v)))
_namespaces = _must("a list of names of namespaces", _is_list_of(lambda name: _is_text(name) and name), frozenset)


def _is_address(value: Any) -> bool:
    """Whether a value is `unix:/PATH` or `ADDRESS:PORT`. Host names are refused: a lookup could take seconds."""
    import ipaddress  # noqa: PLC0415 - only where metrics are configured

    if not _is_text(value) or value.startswith("unix:"):
        return _is_text(value) and _is_path(value.removeprefix("unix:"))
    host, _, port = value.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        ipaddress.IPv6Address(host[1:-1]) if is_bracketed else ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16


def _addresses(value: Any) -> list[Any]:
    """Returns the addresses of a value: a list, one address, or an empty text for none."""
    return value if isinstance(value, list) else [] if value == "" else [value]


_listen = _must(
    "unix:/PATH, or an IP address and a port (127.0.0.1:8891, [::1]:8891), or a list of these",
    lambda value: all(map(_is_address, _addresses(value))),
    lambda value: tuple(_addresses(value)),
)


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(_is_text(text) for pair in value.items() for text in pair):
        raise ValueError("must map names to texts without NUL characters (put numbers in quotes)")
    for name in value:
        if not name or "=" in name or name.startswith("NRI_PLUGIN_"):
            raise ValueError(f"{name!r} cannot be set")
    return value


def _events(value: Any) -> frozenset[str]:
    """Returns the events at which a plugin runs: any of NRI's events except ValidateContainerAdjustment."""
    known = {call.method for call in BY_EVENT.values()} - {"ValidateContainerAdjustment"}
    if not isinstance(value, list) or not all(isinstance(event, str) for event in value):
        raise ValueError("must be a list of events")
    for event in value:
        if event not in known:
            raise ValueError(f"{event!r} is not an event; events are {', '.join(sorted(known))}")
    return frozenset(value)


class Key(NamedTuple):
    """A key of the configuration: the check of its value, its default as YAML, and what it means."""

    check: Check
    default: str
    text: str


def _words(words: str, default: str, text: str = "") -> Key:
    """Returns the key for a value that is one of some words. The key's text is the words, and then `text`."""
    return Key(_one_of(*words.split(" | ")), default, words + text)


_PLUGIN: dict[str, Any] = {
    "onFailure": Key(_fails, "fail", "fail | ignore: a create that failed or was not done in time"),
    "onDeleteFailure": Key(_fails, "ignore", "fail | ignore: a delete that failed"),
    "timeout": Key(_seconds, "0", "seconds for one plugin; 0: until the call's deadline"),
    "killOnTimeout": Key(_boolean, "false", "kill a plugin that is late, instead of leaving it to finish"),
    "standby": Key(_processes, "0", "processes of each plugin that are started ahead of events"),
}
FIELDS = {"onFailure": "fail_create", "onDeleteFailure": "fail_delete"}
"""The fields whose names do not follow from their keys, by key."""
SCHEMA: dict[str, Any] = {
    "hostRoot": Key(_path, "/", "where the node's files are, when the adapter runs in a container"),
    "mountNamespace": Key(_path, OWN, "where programs run; in a container with hostPID: /proc/1/ns/mnt"),
    "trust": Key(_trust, "strict", "strict | off; strict: a file that anybody can write is not used"),
    "legacy": {
        "config": Key(_path, DEFAULT_CONF_JSON, "the list of legacy plugins"),
        "path": Key(_paths, "[/opt/nri/bin]", "where their programs are"),
        "sandboxes": _words("auto | always | never", "auto", ": events of pods; auto: as the runtime needs it"),
        **_PLUGIN,
        "standbyMaxAge": Key(_age, "300", "seconds until a process that stands by is replaced, also a hook's"),
        "lateLimit": Key(_seconds, "30", "seconds after which a late chain continues without a plugin"),
        "holdAfter": Key(
            _hold_after, "auto", "seconds until a start is held; 0: at once; auto: at the deadline; never"
        ),
        "holdLimit": Key(_hold_limit, "30", f"seconds that a start is held at most; up to {MAX_LIMIT:g}"),
        "holdAtOnce": Key(_at_once, "32", f"containers that are held at once; up to {MAX_HELD}"),
        "exempt": Key(_namespaces, "[]", "namespaces whose pods start and end whatever becomes of plugins"),
        "environment": Key(_environment, "{}", "variables that plugins get besides PATH"),
        "metadataPrefix": Key(_text, '""', "e.g. nri.example.com/: annotations for metadata; others are removed"),
        "plugins": {"*": {**_PLUGIN, "events": Key(_events, "[]", "the NRI events at which the plugin runs")}},
    },
    "hooks": {
        "enabled": Key(_auto, "auto", "auto | true | false; auto: not on CRI-O and Docker"),
        "directories": Key(
            _paths, "[/usr/share/containers/oci/hooks.d, /etc/containers/oci/hooks.d]", "a later one overrides"
        ),
        "precreate": Key(_boolean, "false", "run precreate hooks"),
        "onFailure": Key(_fails, "fail", "fail | ignore: a precreate hook that failed, a too large container"),
        "standby": Key(_processes, "0", "processes of each precreate hook that are started ahead"),
        "timeout": Key(_whole_seconds, "0", "seconds for a hook whose file has no timeout; 0: without limit"),
        "output": _words("runtime | journal", "runtime", "; journal: what a hook prints is in the journal"),
        "notIn": Key(_namespaces, "[]", "namespaces whose containers get no hooks"),
        "files": {"*": {"notIn": Key(_namespaces, "[]", "namespaces whose containers do not get the hook")}},
        "podAnnotations": Key(_boolean, "false", "give a container the pod's annotations that its hooks match"),
    },
    "runtime": {
        "socket": Key(_path, DEFAULT_SOCKET, "where the adapter connects, or joins again; -socket overrides it"),
        "reserve": Key(_auto_seconds, "auto", "seconds from an answer to its deadline; auto: 0.1, NRI < 0.12.4: 0.25"),
        "failRequest": Key(_boolean, "false", "NRI >= 0.12.4: fail an event that the adapter does not answer"),
    },
    "state": {
        "directory": Key(_path, "/run/nri-v010-adapter", "what is owed; by default /run/nri-NAME"),
        "owner": Key(_word, '""', "an adapter does not join beside one of another owner"),
    },
    "metrics": {"listen": Key(_listen, '""', "e.g. 127.0.0.1:8891, [unix:/PATH, '[::]:8891']: metrics and probes")},
    "log": {
        "level": _words("debug | info | warning | error", "info", "; debug: also requests, results, stderr of plugins"),
        "format": _words("text | json", "text"),
        "target": _words("auto | stderr | syslog", "auto", "; auto: syslog if stderr is /dev/null"),
        "runs": Key(_boolean, "false", "at level info, one line for each run of a plugin or precreate hook"),
        "secrets": Key(_boolean, "false", "at level debug, show the values of containers' variables"),
    },
}
"""The known keys; `*` is any key. A value is a `Key`, or the schema of a mapping."""
RELOADED = {"log"}
"""The sections whose changes take effect at SIGHUP. All other keys need a restart (`Adapter.reload`)."""
