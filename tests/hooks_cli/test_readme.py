"""What the README of the samples and the page about hooks say of the samples and of the code is so."""

from __future__ import annotations

import re
from pathlib import Path

from adapter.hooks import keys
from tests.peers.test_hooks_oracle import DEVIATIONS

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "hooks.d"
PAGE = (ROOT / "docs/oci-hooks.md").read_text()


def test_the_readme_has_a_line_for_every_sample_and_no_other() -> None:
    told = re.findall(r"^\| \[`([^`]+\.json)`\]", (SAMPLES / "README.md").read_text(), re.MULTILINE)
    assert told == sorted(path.name for path in SAMPLES.glob("*.json"))


def test_the_documentation_shows_record_json_as_it_is_but_for_the_environment() -> None:
    shown = next(block for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if "oci/record" in block)
    without_environment = shown.replace('    "env": ["TZ=UTC"],\n', "")
    assert "".join(without_environment.split()) == "".join((SAMPLES / "record.json").read_text().split())


def test_the_deviations_from_podman_are_those_that_the_oracle_shows() -> None:
    rows = [f"| {each.what} | {each.why.split('. tests/')[0]} |" for each in DEVIATIONS.values()]
    table = PAGE[PAGE.index("What differs from podman") :].split("\n\n")[1]
    assert table.splitlines()[2:] == rows


def test_the_guide_has_the_keys_that_check_and_hooks_match_know() -> None:
    guide = (ROOT / "docs/migration/podman-and-cri-o.md").read_text()
    assert tuple(re.findall(r"^\|.*\| `(io\.\S+)` \| `(io\.\S+)` \|$", guide, re.MULTILINE)) == keys.SAME
