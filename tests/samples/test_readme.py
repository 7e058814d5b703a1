"""The configurations in the README of the samples name samples, and run them at an event where they can work."""

from __future__ import annotations

import re

import pytest

from adapter import settings

from .plugins import SAMPLES

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", YAML.findall((SAMPLES / "README.md").read_text()))
def test_every_configuration_of_the_readme_is_one(text: str) -> None:
    found, errors = settings.parse(text, "README.md")
    assert errors == []
    assert found.legacy.plugins
    for plugin, own in found.legacy.plugins.items():
        assert (SAMPLES / plugin).exists()
        assert "CreateContainer" in (own.events or ())
