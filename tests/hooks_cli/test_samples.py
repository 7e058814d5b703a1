"""The sample hooks: files that are in order, and the hook `record`, which must do no harm."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adapter.cli.check import faults
from adapter.hooks import model
from tests.samples import busybox

SAMPLES = Path(__file__).resolve().parents[2] / "hooks.d"
RECORD = SAMPLES / "record"
STATE = {"ociVersion": "1.0.2", "id": "c1", "status": "created", "pid": 7, "bundle": "/b", "annotations": {"k": "ä\n"}}


def record(*arguments: str | Path, state: bytes = b"{}", shell: tuple[str | Path, ...] = ()) -> tuple[int, str, str]:
    done = subprocess.run([*shell, RECORD, *arguments], input=state, capture_output=True, env={}, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.json")), ids=lambda file: str(file.name))
def test_a_sample_is_in_order(file: Path) -> None:
    text = file.read_bytes()
    model.parse(text)
    assert faults.find(text, "x.json") == []


def test_there_is_a_sample_of_each_kind() -> None:
    names = {"always-inject.json", "by-annotation.json", "by-command.json", "old-style.json", "record.json"}
    assert names <= {file.name for file in SAMPLES.glob("*.json")}
    assert json.loads((SAMPLES / "old-style.json").read_text())["version"] == "0.1.0"


def test_record_appends_each_state_as_one_line(tmp_path: Path) -> None:
    for status in ("created", "stopped"):
        state = json.dumps(STATE | {"status": status}, indent=2).encode()
        assert record(tmp_path / "states", state=state) == (0, "", "")
    lines = (tmp_path / "states").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [STATE, STATE | {"status": "stopped"}]


def test_what_record_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    record(tmp_path / "states")
    assert (tmp_path / "states").stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_written_is_said_and_fails_nobody(tmp_path: Path) -> None:
    code, out, err = record(tmp_path / "nowhere/states")
    assert (code, out) == (0, "")
    assert f"record: cannot write to {tmp_path}/nowhere/states" in err


def test_record_wants_to_know_its_file() -> None:
    code, _, err = record()
    assert code == 2
    assert "usage: record FILE" in err


def test_states_of_containers_that_start_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    states = [json.dumps(STATE | {"id": f"{number}" * 30_000}).encode() for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda state: record(tmp_path / "states", state=state), states))
    assert sorted((tmp_path / "states").read_bytes().splitlines()) == sorted(states)


def test_record_needs_nothing_but_a_posix_shell_and_its_tools(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    busybox.applets(tools)
    script = RECORD.read_text()
    path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin "
    assert script.count(path) == 1
    (tmp_path / "record").write_text(script.replace(path, f"PATH={tools} "))
    command = [tools / "sh", tmp_path / "record", tmp_path / "states"]
    done = subprocess.run(command, input=json.dumps(STATE).encode(), capture_output=True, env={}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert json.loads((tmp_path / "states").read_text()) == STATE
