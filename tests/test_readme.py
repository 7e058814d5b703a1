"""What README.md says is so: the example plugin works, the deviations are the code's, the defaults are the defaults."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adapter.check import configuration, validator
from adapter.check.report import OK
from adapter.nri import api
from adapter.runtime import PluginFile, Runtime
from adapter.settings import Settings, parse

from .legacy.deviations import DEVIATIONS

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str) -> str:
    """The only code block in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(found)


def test_the_example_plugin_is_short_and_does_what_it_says(tmp_path: Path) -> None:
    example = block("python")
    assert len(example.strip().splitlines()) < 25
    program = tmp_path / "10-nice"
    program.write_text(f"#!{sys.executable}\n{example}")
    program.chmod(0o755)
    pod = api.PodSandbox(id="p", name="pod")
    with Runtime() as runtime:
        runtime.launch(PluginFile(program, "10", "nice"))
        created = runtime.event(
            "CreateContainer", api.CreateContainerRequest(pod=pod, container=api.Container(id="c", name="web"))
        )
        assert created.adjust is not None
        assert [(variable.key, variable.value) for variable in created.adjust.env] == [("NODE_MOOD", "nice")]
        good = api.StartContainerRequest(pod=pod, container=api.Container(id="c", name="web"))
        assert not runtime.event("StartContainer", good).error
        bad = api.StartContainerRequest(pod=pod, container=api.Container(id="n", name="nasty"))
        assert "not on this node" in str(runtime.event("StartContainer", bad).error)


def test_the_last_example_of_simulate_runs_as_it_stands(tmp_path: Path) -> None:
    (example,) = [one for one in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "simulate" in one]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    out = subprocess.check_output(["sh", "-ec", example], cwd=tmp_path, env={"PATH": path}, text=True)
    assert '    + process.env[TZ]  "TZ=UTC"\n' in out


def test_the_table_of_deviations_is_the_codes() -> None:
    rows = [f"| {deviation.other} | {deviation.what} | {deviation.why} |" for deviation in DEVIATIONS]
    assert "\n".join(rows) in README


def test_the_defaults_in_it_are_the_defaults() -> None:
    settings, errors = parse(block("yaml"), "README.md")
    assert not errors
    legacy = settings.legacy._replace(plugins={})  # an example, not a default
    assert settings._replace(legacy=legacy) == Settings()


def test_the_validator_of_the_readme_requires_the_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("config.toml").write_text(block("toml"))
    monkeypatch.setattr(validator, "CONFIG", "/config.toml")
    assert validator.check(str(tmp_path), configuration.names(str(tmp_path))).status == OK
