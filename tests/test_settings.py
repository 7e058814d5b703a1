"""The adapter's own configuration: every key, its default, and every bad value or unknown key with its line."""

from __future__ import annotations

import os
from operator import ne
from pathlib import Path
from typing import Any

import pytest

from nri.holding.holds import MAX_LIMIT
from nri.holding.keeper import MAX_HELD
from v010_adapter import settings
from v010_adapter.host import trust
from v010_adapter.settings import (
    MAX_LEVELS,
    MAX_SIZE,
    HookFileSettings,
    HooksSettings,
    LegacySettings,
    LogSettings,
    PluginSettings,
    Settings,
    parse,
    read,
    schema,
)

FULL = """\
hostRoot: /host
trust: off
legacy:
  config: /etc/nri/own.json
  path: [/opt/nri/bin, /usr/libexec/nri]
  timeout: 1.5
  sandboxes: never
  onFailure: ignore
  onDeleteFailure: fail
  killOnTimeout: true
  lateLimit: 10
  holdAfter: 0
  holdLimit: 60
  holdAtOnce: 8
  exempt: [kube-system]
  environment: {LANG: C, EMPTY: ""}
  metadataPrefix: nri.example.com/
  standby: 2
  standbyMaxAge: 60
  plugins:
    konfine: {onFailure: fail, onDeleteFailure: ignore, timeout: 3, killOnTimeout: false, events: [CreateContainer]}
    logger: {standby: 0}
hooks:
  {enabled: false, directories: [/etc/hooks.d], precreate: true, onFailure: ignore, standby: 3, podAnnotations: true,
  timeout: 20, output: journal, notIn: [kube-system], files: {a.json: {notIn: []}, b.json: {}}}
runtime: {failRequest: true}
metrics: {listen: 127.0.0.1:8891}
log: {level: debug, format: json, target: stderr, secrets: true, runs: true}
"""


def errors(text: str) -> list[str]:
    return [str(error) for error in parse(text, "conf.yaml")[1]]


def test_every_key_is_read() -> None:
    given, wrong = parse(FULL, "conf.yaml")
    assert wrong == []
    konfine = PluginSettings(True, False, 3.0, False, frozenset(["CreateContainer"]))
    assert given.legacy == LegacySettings(
        config="/etc/nri/own.json", path=("/opt/nri/bin", "/usr/libexec/nri"), sandboxes="never", fail_create=False,
        fail_delete=True, timeout=1.5, kill_on_timeout=True, late_limit=10.0, hold_after=0.0,
        hold_limit=60.0, hold_at_once=8, exempt=frozenset(["kube-system"]),
        environment={"LANG": "C", "EMPTY": ""}, metadata_prefix="nri.example.com/", standby=2, standby_max_age=60.0,
        trust=trust.off, plugins={"konfine": konfine, "logger": PluginSettings(standby=0)},
    )  # fmt: skip
    directories = ("/etc/hooks.d",)
    hooks = HooksSettings(
        enabled=False, directories=directories, precreate=True, fail_create=False, standby=3, pod_annotations=True,
        timeout=20, output="journal", not_in=frozenset(["kube-system"]), trust=trust.off,
        files={"a.json": HookFileSettings(frozenset()), "b.json": HookFileSettings()},
    )  # fmt: skip
    log = LogSettings("debug", "json", "stderr", secrets=True, runs=True)
    listen = ("127.0.0.1:8891",)
    assert given == Settings(
        host_root="/host", legacy=given.legacy, hooks=hooks, log=log, fail_request=True, metrics_listen=listen
    )
    of_hooks = hooks._replace(watch=False)  # which no key sets
    for one, default in ((given.legacy, LegacySettings()), (of_hooks, HooksSettings()), (given.log, LogSettings())):
        assert all(map(ne, one, default)), "this test would not see a key that is not read"


DEFAULTS = Settings()


def test_without_keys_the_defaults_hold() -> None:
    empty = ("", "\n# nothing\n", "---\n", "null", "{}", "legacy:\nlog:\nruntime:\n", "legacy: {}\nlog: ~")
    for text in (*empty, "legacy: {plugins: }", "%YAML 1.1\n---\n{}\n...\n"):
        assert parse(text, "conf.yaml") == (DEFAULTS, []), text


def test_some_settings_depend_on_others() -> None:
    for word, enabled in {"auto": None, "true": True, "false": False}.items():
        assert parse(f"hooks: {{enabled: {word}}}", "conf.yaml")[0].hooks.enabled is enabled, "as the runtime needs"
    assert settings.state_directory(DEFAULTS, "10-a/b") == "/run/nri-10-a_b"
    own = LegacySettings(standby=2, plugins={"a": PluginSettings(standby=0), "b": PluginSettings()})
    assert [own.of(type_, "standby") for type_ in "abc"] == [0, 2, 2], "a plugin's own number comes first"
    files = {"a": HookFileSettings(frozenset()), "b": HookFileSettings(), "c": HookFileSettings(frozenset(["x"]))}
    hooks = HooksSettings(not_in=frozenset(["y"]), files=files)
    assert [{*hooks.not_in_of(file)} for file in "abcd"] == [set(), {"y"}, {"x"}, {"y"}], (
        "a file's own list comes first"
    )


def test_the_default_file_may_be_absent_and_paths_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "default.yaml"
    monkeypatch.setattr(settings, "DEFAULT_PATH", str(path))
    assert read() == (DEFAULTS, []), "an absent default file is no mistake"
    path.write_text("hostRoot: /host\nx: é\n")
    given, wrong = read()
    assert (given.host_root, [error.place for error in wrong]) == ("/host", [f"{path}:2"])
    monkeypatch.chdir(tmp_path)
    assert read("default.yaml")[0].file == str(path)


def test_what_cannot_be_read_is_a_mistake_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_SIZE + 1)
    (tmp_path / "latin").write_bytes(b"hostRoot: /\xff\n")
    for name, reason in {
        "absent": ": No such file or directory",
        ".": ": not a regular file",
        "fifo": ": not a regular file",
        "huge": f": {MAX_SIZE + 1} bytes, at most {MAX_SIZE}",
        "latin": ":1: not a text: the byte 0xff is not UTF-8",
    }.items():
        given, [error] = read(str(tmp_path / name))
        assert (given, str(error)) == (DEFAULTS, f"{tmp_path / name}{reason}")


def test_a_text_of_the_runtime_has_the_limit_of_a_file() -> None:
    assert errors("#" * MAX_SIZE) == []
    assert errors("é" + "#" * (MAX_SIZE - 1)) == [f"conf.yaml: {MAX_SIZE + 1} bytes, at most {MAX_SIZE}"]


def test_levels_beyond_the_maximum_are_not_read() -> None:
    """The end of the list, which is missing, is never looked for."""
    assert errors("[" * MAX_LEVELS) != ["conf.yaml: nested too deeply"]
    assert errors("[" * (MAX_LEVELS + 1)) == ["conf.yaml: nested too deeply"]


def test_who_can_write_to_the_file_could_switch_the_check_off_so_nothing_of_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text("hostRoot: /host\ntrust: off\n")
    path.chmod(0o666)
    given, [error] = read(str(path))
    assert given == DEFAULTS._replace(file=str(path))
    assert str(error) == f"{path}: {path} is world-writable"
    path.chmod(0o664)
    assert read(str(path)) == (parse(path.read_text(), "x")[0]._replace(file=str(path)), [])


# fmt: off
VALUES = {  # key: good values, bad values
    "hostRoot": (["/", "/host", '"/a b"'], ["host", "", "~", "1", "[/]", '"/a\\0b"', '"/\\ud800"']),
    "mountNamespace": (["/proc/1/ns/mnt"], ["~", "1", "proc/1/ns/mnt"]),
    "trust": (["strict", "off", "false", "no", '"off"'], ["on", "true", "0", "none", "~", "[off]", "Strict", "''"]),
    "legacy.config": (["/x"], ["x", "''", "~", "{}"]),
    "legacy.path": (["[]", "[/a]", "[/a, /b]"],
        ["/a", "[a]", "[/a, b]", "~", "{/a: /b}", "[1]", "[[/a]]", '["/a\\0"]']),
    "legacy.sandboxes": (["auto", "always", "never"], ["Auto", "yes", "true", "~", "[auto]", "''"]),
    "legacy.onFailure": (["fail", "ignore"], ["Fail", "true", "no", "~", "1", "{fail: ignore}"]),
    "legacy.onDeleteFailure": (["fail", "ignore"], ["warn", "false"]),
    "legacy.timeout": (["0", "1", "0.5", "1.0e+3"],
        ["-1", "-0.1", ".inf", ".nan", "true", "'1'", "1s", "~", "[1]", "9" * 400]),
    "legacy.killOnTimeout": (["true", "false", "yes", "off"], ["1", "0", "'true'", "~", "truely"]),
    "legacy.lateLimit": (["0", "30", "2.5"], ["-1", ".inf", "30s", "true", "~"]),
    "legacy.holdAfter": (["auto", "never", "0", "1", "0.5"], ["-1", ".inf", "1s", "true", "~", "off"]),
    "legacy.holdLimit": (["1", "30", "90", "2.5"], ["0", "0.9", "91", ".inf", "auto", "true", "~"]),
    "legacy.holdAtOnce": (["1", "32"], ["0", "33", "0.5", "true", "'1'", "~"]),
    "legacy.standby": (["0", "1", "100"], ["-1", "101", "0.5", "true", "'1'", "~", "auto"]),
    "legacy.standbyMaxAge": (["1", "300", "2.5"], ["0", "0.5", "-1", ".inf", "5m", "true", "~"]),
    "legacy.exempt": (["[]", "[kube-system]", "[a, b]"], ["a", "['']", "[1]", "~", "{a: b}", '["a\\0"]']),
    "legacy.environment": (["{}", "{A: b}", "{A: ''}", "{A: 'b=c'}", "{a.b-c: d}", "{NRI_PLUGINS: x}"],
        ["A=b", "[A]", "{A: 1}", "{A: true}", "{A: ~}", "{A: [b]}", "{1: a}", "{'': a}", "{'A=': b}", "{[A]: b}",
        "{NRI_PLUGIN_NAME: x}", "{NRI_PLUGIN_: x}", '{"A\\0": b}', '{A: "b\\0"}', '{A: "\\ud800"}', "1"]),
    "legacy.metadataPrefix": (["''", "a/", "nri.example.com/"], ["~", "1", "[a]", '"a\\0"']),
    "legacy.plugins.a.onFailure": (["fail", "ignore"], ["Fail", "~"]),
    "legacy.plugins.a.onDeleteFailure": (["fail", "ignore"], ["Fail", "~"]),
    "legacy.plugins.a.timeout": (["0", "1.5"], ["-1", "x", "~"]),
    "legacy.plugins.a.killOnTimeout": (["true", "false"], ["1", "~"]),
    "legacy.plugins.a.standby": (["0", "1"], ["-1", "101", "~"]),
    "legacy.plugins.a.events": (
        ["[]", "[CreateContainer]", "[RunPodSandbox, UpdateContainer, PostUpdatePodSandbox, RemovePodSandbox]"],
        ["CreateContainer", "[createContainer]", "[1]", "~", "[Configure]", "[ValidateContainerAdjustment]", "{}"]),
    "hooks.precreate": (["true", "false"], ["auto", "1", "~"]),
    "hooks.onFailure": (["fail", "ignore"], ["true", "~"]),
    "hooks.podAnnotations": (["true", "false"], ["auto", "~"]),
    "hooks.enabled": (["auto", "true", "false", "yes"], ["1", "~", "'true'", "Auto", "[]"]),
    "hooks.directories": (["[]", "[/a]", "[/a, /b]"], ["/a", "[a]", "~", "{/a: /b}"]),
    "hooks.timeout": (["0", "1", "1000000000"], ["-1", "1000000001", "0.5", "true", "'1'", "10s", "~"]),
    "hooks.output": (["runtime", "journal"], ["Journal", "true", "~", "syslog"]),
    "hooks.notIn": (["[]", "[kube-system]"], ["kube-system", "['']", "[1]", "~"]),
    "hooks.files.a.notIn": (["[]", "[kube-system, b]"], ["b", "['']", "[1]", "~"]),
    "hooks.standby": (["0", "1"], ["-1", "101", "~"]),
    "runtime.reserve": (["auto", "0", "0.5"], ["-1", "x", "true", ".inf"]),
    "runtime.socket": (["/run/nri.sock"], ["nri.sock", "7", "[]"]),
    "runtime.failRequest": (["true", "false"], ["1", "~", "fail"]),
    "state.directory": (["/run/nri-other"], ["", "nri", "7", "[]"]),
    "state.owner": (["kube-system/nri-v010-adapter", "''"], ["a b", "'a\tb'", "\u00e4", "7", "~"]),
    "metrics.listen": (
        ["127.0.0.1:8891", "0.0.0.0:1", "'[::1]:65535'", "'[::]:8891'", "unix:/run/metrics.sock", "''", "[]",
        "[unix:/a, 0.0.0.0:1]"],
        ["8891", ":8891", "localhost:8891", "127.0.0.1", "'127.0.0.1:'", "127.0.0.1:0", "127.0.0.1:65536",
        "127.0.0.1:http", "'127.0.0.1:+1'", "'127.0.0.1:\u0661'", f"127.0.0.1:{'9' * 5000}", "127.1:8891", "'::1:8891'",
        "'[127.0.0.1]:8891'", "unix:metrics.sock", "'unix:'", r'"unix:/a\0b"', "7", "['']", "[unix:/a, 7]", "{}"]),
    "log.level": (["debug", "info", "warning", "error"], ["INFO", "trace", "10", "~"]),
    "log.format": (["text", "json"], ["yaml", "~"]),
    "log.runs": (["true", "false"], ["1", "~", "auto"]),
    "log.secrets": (["true", "false"], ["1", "~", "auto"]),
    "log.target": (["auto", "stderr", "syslog"], ["/dev/log", "stdout", "~"]),
}
# fmt: on


def test_limits_of_holds_are_those_of_the_stub() -> None:
    assert (schema.MAX_LIMIT, schema.MAX_HELD) == (MAX_LIMIT, MAX_HELD)


def under(key: str, value: str) -> tuple[str, int]:
    """A text with one key, in block style under comments, and the line that its value stands on."""
    *parents, last = key.split(".")
    lines = ["# a comment"]
    for depth, name in enumerate(parents):
        lines += [f"{'  ' * depth}{name}:", ""]
    lines.append(f"{'  ' * len(parents)}{last}: {value}")
    return "\n".join(lines), len(lines)


def test_every_key_has_its_values_here() -> None:
    keys = set()

    def gather(schema: dict[str, Any], path: str) -> None:
        for key, expected in schema.items():
            name = f"{path}{key.replace('*', 'a')}"
            gather(expected, f"{name}.") if isinstance(expected, dict) else keys.add(name)

    gather(settings.SCHEMA, "")
    assert set(VALUES) == keys


def test_good_values_are_taken_and_bad_ones_are_named_with_their_line_while_the_default_holds() -> None:
    """But no other list of plugins than the named one may run."""
    for key, (good, bad) in VALUES.items():
        for value in good:
            assert errors(under(key, value)[0]) == [], key
        config = "" if key == "legacy.config" else DEFAULTS.legacy.config
        for value in bad:
            text, line = under(key, value)
            given, [error] = parse(text, "conf.yaml")
            assert str(error).startswith(f"conf.yaml:{line}: {key}: "), value
            assert "\n" not in str(error)
            assert given.legacy.plugins in ({}, {"a": PluginSettings()})
            assert given.hooks.files in ({}, {"a": HookFileSettings()})
            legacy, hooks = given.legacy._replace(plugins={}), given.hooks._replace(files={})
            assert given._replace(legacy=legacy, hooks=hooks) == DEFAULTS._replace(
                legacy=DEFAULTS.legacy._replace(config=config)
            )


def test_an_unknown_key_is_named_with_its_line_and_the_known_ones() -> None:
    for text, said in {
        "hostroot: /": "1: hostroot: unknown key; did you mean `hostRoot`?",
        "log:\n  levle: info": "2: log.levle: unknown key; did you mean `level`?",
        "legacy:\n  plugins:\n    a:\n      onfailure: fail": "4: legacy.plugins.a.onfailure: unknown key",
        **{"1: 2": "1: 1: unknown key", "~: 2": "1: ~: unknown key", "'': 2": "1: ", "'*': 2": "1: *: unknown key"},
        "legacy.config: /x": "1: legacy.config: unknown key",
        "log: {zzz: 1}": "1: log.zzz: unknown key; known: format, level, runs, secrets, target",
    }.items():
        [error] = errors(text)
        assert error.startswith(f"conf.yaml:{said}")


# ---- mistakes that are not one value's: repeated keys, wrong shapes, broken YAML, anchors


def test_a_key_that_is_given_twice_is_named_and_the_first_counts() -> None:
    for text, said in {
        "hostRoot: /a\nhostRoot: /b": "conf.yaml:2: hostRoot: given twice",
        "log: {}\n\nlog: {level: debug}": "conf.yaml:3: log: given twice",
        "legacy:\n  timeout: 1\n  timeout: 1\n": "conf.yaml:3: legacy.timeout: given twice",
        "legacy:\n  plugins:\n    a: {}\n    a: {timeout: 1}\n": "conf.yaml:4: legacy.plugins.a: given twice",
    }.items():
        given, [error] = parse(text, "conf.yaml")
        assert str(error) == said
        first = "".join(line + "\n" for number, line in enumerate(text.split("\n"), 1) if f"yaml:{number}:" not in said)
        assert given == parse(first, "conf.yaml")[0]


def test_what_must_be_a_mapping_and_is_none_is_named() -> None:
    for text, place in {
        **dict.fromkeys(("- a", "just text", "42"), "1"),
        "\n\n[]": "3",
        "legacy: []": "1: legacy",
        "legacy:\n  plugins: konfine": "2: legacy.plugins",
        "legacy:\n  plugins:\n    konfine: fail": "3: legacy.plugins.konfine",
        "log: debug": "1: log",
        "runtime: ''": "1: runtime",
    }.items():
        given, wrong = parse(text, "conf.yaml")
        assert [str(error) for error in wrong] == [f"conf.yaml:{place}: must be a mapping"]
        assert given.log == DEFAULTS.log
        assert (given.legacy.config == "") is (text == "legacy: []"), "which plugins there are is not known"


def test_a_mistake_in_the_yaml_itself_is_named_with_its_line_and_all_defaults_hold() -> None:
    for line, texts in {
        1: ("log: {", "a: b: c", "hostRoot: '/", "legacy: *nowhere", "hostRoot: @x", "\ufeff\x1b[0m",
            "%YAML 3.0\n---\n{}", 'hostRoot: "\\x"'),
        2: ("log:\n\tlevel: info", "hostRoot: /\n---\nhostRoot: /", "&a x: 1\n&a y: *b", "hostRoot: /\nlog: \x00",
            "[" * 20 + "\n"),
        3: ("log:\n  level: info\n target: auto", "hostRoot: /\n\nlog: \x07"),
    }.items():  # fmt: skip
        for text in texts:
            given, [error] = parse(text, "conf.yaml")
            assert (given, error.place) == (DEFAULTS, f"conf.yaml:{line}"), text
            assert error.reason
            assert "\n" not in str(error)
    given, [error] = parse("legacy: " + "[" * 1_000, "conf.yaml")
    assert (given, error.place[:9]) == (DEFAULTS, "conf.yaml"), "depth without end is no crash"


def test_anchors_stand_for_what_they_name_and_a_mistake_there_is_named_for_each_use() -> None:
    text = "legacy:\n  plugins:\n    a: &x {onFailure: ignore, timeout: &y 20}\n    b: *x\n    c: {timeout: *y}\n"
    given, wrong = parse(text, "conf.yaml")
    careful = PluginSettings(fail_create=False, timeout=20)
    assert wrong == []
    assert given.legacy.plugins == {"a": careful, "b": careful, "c": PluginSettings(timeout=20)}
    assert [error.split(": must")[0] for error in errors(text.replace("20", "soon"))] == [
        f"conf.yaml:3: legacy.plugins.{name}.timeout" for name in "abc"
    ]


def test_an_anchor_that_holds_itself_is_a_mistake_and_no_crash() -> None:
    sections = ["legacy: &a {plugins: *a}", "legacy: {environment: &a {x: *a}}", "legacy: {path: &a [*a]}"]
    for text in (*sections, "&a {log: *a}"):
        given, wrong = parse(text, "conf.yaml")
        assert wrong
        assert given._replace(legacy=given.legacy._replace(plugins={})) == DEFAULTS


def test_anchors_that_multiply_do_not() -> None:
    """A billion laughs; their text must not come out in a message either."""
    lines = ["legacy:", "  environment: &a0 {x: y}"]
    lines += [f"  path{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    given, wrong = parse("\n".join(lines), "conf.yaml")
    assert given.legacy.environment == {"x": "y"}
    assert max(len(str(error)) for error in wrong) < 500
