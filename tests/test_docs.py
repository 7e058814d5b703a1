"""The documentation is right: commands print what it shows, files can be used, examples work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from socket import SO_REUSEADDR, SOL_SOCKET, socket
from typing import Any

import pytest
import yaml

import nri
from nri import testing as runtime
from nri import wire
from nri.testing.node import Node
from v010_adapter import settings
from v010_adapter.cli.arguments import COMMANDS, parser
from v010_adapter.cli.install import example

from .legacy.deviations import DEVIATIONS
from .rig.brief import few
from .rig.debian import missing
from .rig.interpreter import FIRST_LINE, PYTHON
from .rig.programs import Programs
from .rig.waiting import LIMIT

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SAMPLES = [ROOT / "hooks.d/README.md", ROOT / "legacy-plugins/README.md"]
RECORD = "/usr/local/libexec/oci/record"
"""What the page of hooks.d says how to install, after it has shown what is said without it."""
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *SAMPLES]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(
    r"^(?P<indent> *)```sh\n(?P<commands>.*?)^(?P=indent)```$"
    r"(?:\n\n(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```$)?",
    re.MULTILINE | re.DOTALL,
)
"""Commands that run anywhere, and the output that follows."""


def unindented(text: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks in a language."""
    found = FENCE.finditer(page.read_text())
    return [unindented(block["text"], block["indent"]) for block in found if block["language"] == language]


def timeless(output: str) -> str:
    """An output without the times in it, whatever their width."""
    return re.sub(r" *\b[0-9.]+ (m?s)\b", r" N \1", output)


def pages_with(*languages: str) -> list[Path]:
    """The pages that have blocks in one of the languages."""
    return [page for page in PAGES if any(blocks(page, language) for language in languages)]


# ---- commands


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The command in PATH waits patiently for its plugins."""
    script = f'exec {PYTHON} -P {shlex.quote(str(ROOT))}/tests/rig/patient.py "$@"'
    command = Programs(tmp_path / "bin").shell("v010-adapter", script)
    own = os.path.dirname(sys.executable)
    return {"PATH": f"{command.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{own}"}


def folder(page: Path, tmp_path: Path) -> Path:
    """A copy of the samples for their page; for others a folder that has what a clone has."""
    if page in SAMPLES:
        return shutil.copytree(page.parent, tmp_path / page.parent.name)
    clone = tmp_path / "clone"
    clone.mkdir()
    for path in ROOT.iterdir():
        (clone / path.name).symlink_to(path)
    (clone / ".venv").unlink(missing_ok=True)
    Programs(clone / ".venv/bin").shell("python", f'exec {PYTHON} "$@"')
    return clone


@pytest.mark.parametrize("page", few(pages_with("sh"), 3), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_prints_what_the_page_says(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    if page.parent.name == "hooks.d" and os.path.lexists(RECORD):
        missing(f"{RECORD} is there: this machine is one on which the page was followed")
    here = folder(page, tmp_path)
    found = list(SHOWN.finditer(page.read_text()))
    assert len(found) == len(blocks(page, "sh"))
    for block in found:
        done = subprocess.run(
            ["sh", "-eu", "-c", unindented(block["commands"], block["indent"])],
            cwd=here, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip
        output = unindented(block["output"] or "", block["indent"])
        assert (done.returncode, timeless(done.stdout)) == (0, timeless(output)), block["commands"]


LOG_LINES = (DOCS / "troubleshooting.md").read_text().partition("| log line | meaning |")[2].partition("\n\n")[0]


def test_every_line_of_the_log_that_the_page_has_is_in_the_source() -> None:
    """Places and names are placeholders; a word of the adapter's own is left of each line."""
    source = "".join(path.read_text() for path in (ROOT / "adapter").rglob("*.py"))
    source = re.sub(r"\s+", " ", re.sub(r'"\s*\n?\s*f?"', "", source))
    for line in re.findall(r"^\| (.*?) \| ", LOG_LINES, re.MULTILINE)[1:]:
        for text in re.findall("`([^`]+)`", line):
            words = re.findall(r"[a-z][a-z' ,:-]{6,}", text.replace("container …", "%"))
            assert not words or any(word.strip(" :,") in source for word in words), text


def test_the_lines_of_the_log_are_sorted_by_their_text_without_names_and_places() -> None:
    lines = re.findall(r"^\| `(.*?)`", LOG_LINES, re.MULTILINE)
    texts = [re.sub(r"\S*[A-Z]{2,}\S*|\bN{1,2}\b", "", line) for line in lines]
    texts = [re.sub("^[^a-z]+", "", text.casefold()) for text in texts]
    assert len(texts) > 50
    assert texts == sorted(texts)


# ---- tests of plugins

TESTING = DOCS / "testing-plugins.md"
PATIENT = """
import pytest
from nri.testing import Flavour, Node

@pytest.fixture
def nri_runtime():
    with Node(Flavour(registration_timeout=60, request_timeout=60)) as node:
        yield node
"""
"""A file with a fixture that waits longer than a slow machine needs."""


def test_every_command_of_ci_is_understood() -> None:
    simulated = re.findall(r"v010-adapter simulate (.*)", TESTING.read_text())
    assert len(simulated) == 7
    for words in simulated:
        parser("simulate").parse_args(shlex.split(words.partition(" 2>")[0].partition(" >")[0]))
    jobs = [yaml.safe_load(text) for text in blocks(TESTING, "yaml")]
    assert [*jobs[0]["jobs"], *jobs[1]] == ["nri", "nri"]


@pytest.mark.ci
def test_an_authors_tests_are_three_lines(tmp_path: Path) -> None:
    (test,) = blocks(TESTING, "python")
    assert [len(one.strip().splitlines()) for one in test.split("\n\n\n")] == [2, 3]
    (tmp_path / "test_mine.py").write_text(test.replace("max_p99=0.02", "max_p99=60"))
    (tmp_path / "conftest.py").write_text(PATIENT)
    plugin = (ROOT / "examples/nice.py").read_text().partition("\n")[2]
    Programs(tmp_path).write("10-mine", f"{FIRST_LINE}\n{plugin}")
    words = ["-P", "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"^2 passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr


# ---- files


def test_every_configuration_can_be_used_and_every_file_of_others_can_be_read() -> None:
    for page in pages_with("yaml", "toml", "json"):
        for text in blocks(page, "yaml"):
            if {"profile", "kind"} & yaml.safe_load(text).keys() or page == TESTING:
                continue  # values of the chart, an object of Kubernetes: tests/deploy has them; jobs of CI
            found, errors = settings.parse(text, "here")
            assert errors == [], page
            assert found != settings.Settings() or page.name == "configuration.md"
        assert all(map(tomllib.loads, blocks(page, "toml")))
        assert all(map(json.loads, blocks(page, "json")))


# ---- tables


def test_the_readme_is_short_and_has_a_line_for_each_command() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    cells = re.findall(r"^\| (`v010-adapter .*?) \|", text, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(?:v010-adapter )?(\w+)", cell)} == set(COMMANDS)


def test_the_table_of_deviations_is_the_codes() -> None:
    rows = [f"| {deviation.other} | {deviation.what} | {deviation.why} |" for deviation in DEVIATIONS]
    assert "\n".join(rows) in (DOCS / "legacy-plugins.md").read_text()


def test_the_reference_of_the_configuration_is_the_settings_own() -> None:
    assert blocks(DOCS / "configuration.md", "yaml")[0] == example.reference()


# ---- the stub

STUB = DOCS / "stub.md"


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("package", [nri, runtime, wire])
def test_the_reference_has_every_public_name(package: Any) -> None:
    text = (DOCS / "stub-api.rst").read_text()
    part = text.partition(f"module:: {package.__name__}\n")[2]
    shown = set(re.findall(r"^\.\. (?:auto\w+|data):: (\w+)", part, re.MULTILINE))
    assert set(package.__all__) - {"api"} <= shown


def test_the_examples_on_the_page_work(tmp_path: Path, nri_runtime: Node) -> None:
    plugin, adjusting, coroutine, traced, test, *_ = blocks(STUB, "python")
    assert plugin == (ROOT / "examples/nice.py").read_text()
    names: dict[str, Any] = {"__name__": "page"}
    for text in (coroutine, adjusting, traced, *blocks(ROOT / "adapter/nri/README.md", "python")):
        exec(text, names)  # noqa: S102 - it is our own
    nri_runtime.add(names["Labels"]())
    nri_runtime.add(names["Adjusting"](), idx="20")
    nri_runtime.add(names["Nice"](), idx="30")
    nri_runtime.add(names["Devices"](), idx="40")
    nri_runtime.metadata["traceparent"] = TRACEPARENT
    assert not nri_runtime.event("StartContainer").error
    adjust = nri_runtime.event("CreateContainer").adjust
    assert adjust
    assert adjust.annotations == {"labelled": "yes", "example.com/zone": "utc"}
    assert [mount.destination for mount in adjust.mounts] == ["/etc/localtime", "-/data"]
    assert {field.name for field, _ in adjust.linux.ListFields()} == {"devices", "resources"}
    assert [one.key for one in adjust.env] == ["TZ", "NODE_MOOD"]
    assert len(test.strip().splitlines()) <= 13
    (tmp_path / "test_nice.py").write_text(test)
    words = ["-P", "-m", "pytest", "-q", "--color=no", "-p", "pytest_nri", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r"^2 passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.ci
def test_the_whole_plugin_on_the_page_and_its_test_have_less_than_40_lines_and_work(tmp_path: Path) -> None:
    *_, plugin, test = blocks(STUB, "python")
    assert len((plugin + test).splitlines()) < 40
    words = ["-P", "-m", "pytest", "-q", "--color=no", "-p", "pytest_nri", "-p", "no:cacheprovider", "test_quota.py"]
    with socket() as held:  # it keeps the port from others, and does not listen
        held.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        for name, text in (("quota.py", plugin), ("test_quota.py", test)):
            assert ":9464" in text
            (tmp_path / name).write_text(text.replace(":9464", f":{port}"))
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"^1 passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr


# ---- the protocol, and the events that come


def test_each_rule_of_the_protocol_names_a_test_that_exists_or_its_source() -> None:
    rows = re.findall(r"^\| (?!rule)(.+) \| (.+) \|$", (DOCS / "protocol.md").read_text(), re.MULTILINE)
    assert len(rows) > 30
    for rule, proof in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:: (test_\w+))?`", proof)
        assert named or re.match(r"(NRI pkg|ttrpc )", proof), rule
        for path, test in named:
            assert not test or f"def {test}(" in (ROOT / path).read_text(), rule


def test_the_table_of_events_is_what_was_recorded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import events, sys; sys.stdout.write(events.page())"],
        cwd=DOCS,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.stderr == ""
    assert done.stdout == (DOCS / "events.md").read_text()
