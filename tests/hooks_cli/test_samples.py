"""The sample hooks are in order, as their README and the page about hooks say; the hook `record` does no harm."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from v010_adapter.cli.check import faults
from v010_adapter.hooks.model import parse

from ..rig.waiting import LIMIT

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "hooks.d"
RECORD = SAMPLES / "record"
STATE = {"ociVersion": "1.0.2", "id": "c1", "status": "created", "pid": 7, "bundle": "/b", "annotations": {"k": "ä\n"}}


def test_the_samples_are_in_order_and_the_readme_has_a_line_for_each() -> None:
    samples = sorted(SAMPLES.glob("*.json"))
    for file in samples:
        parse(file.read_bytes())
        assert faults.find(file.read_bytes(), "x.json") == [], file
    told = re.findall(r"^\| \[`([^`]+\.json)`\]", (SAMPLES / "README.md").read_text(), re.MULTILINE)
    assert told == [path.name for path in samples]
    assert json.loads((SAMPLES / "old-style.json").read_text())["version"] == "0.1.0"


def record(*arguments: str | Path, state: bytes = b"{}") -> tuple[int, str, str]:
    words = [RECORD, *arguments]
    done = subprocess.run(words, input=state, capture_output=True, env={}, check=False, timeout=LIMIT)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_record_appends_each_state_as_one_line_for_its_owner_alone(tmp_path: Path) -> None:
    for status in ("created", "stopped"):
        state = json.dumps(STATE | {"status": status}, indent=2).encode()
        assert record(tmp_path / "states", state=state) == (0, "", "")
    lines = (tmp_path / "states").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [STATE, STATE | {"status": "stopped"}]
    assert (tmp_path / "states").stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_written_is_said_and_fails_nobody_but_who_names_no_file(tmp_path: Path) -> None:
    code, out, err = record(tmp_path / "nowhere/states")
    assert (code, out) == (0, "")
    assert f"record: cannot write to {tmp_path}/nowhere/states" in err
    code, _, err = record()
    assert code == 2
    assert "usage: record FILE" in err


def test_states_of_containers_that_start_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    states = [json.dumps(STATE | {"id": f"{number}" * 30_000}).encode() for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda state: record(tmp_path / "states", state=state), states))
    assert sorted((tmp_path / "states").read_bytes().splitlines()) == sorted(states)
