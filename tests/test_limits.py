"""What the adapter reads of others has limits: the same for conf.json, hook files, results and precreate output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nri.errors import NRIError
from v010_adapter.base import gojson
from v010_adapter.hooks.model import parse
from v010_adapter.legacy import config, result

HOOK = b'{"version":"1.0.0","hook":{"path":"/a"},"when":{"always":true},"stages":["poststop"],"more":%b}'
READERS: dict[str, tuple[Callable[[bytes], Any], bytes, int]] = {
    "a document": (gojson.document, b"%b", 0),
    "output of a precreate hook": (lambda text: gojson.decode(text, levels=1), b'{"a":%b}', 1),
    "conf.json": (lambda text: config.parse(text, "conf.json"), b'{"plugins":[{"type":"a","conf":%b}]}', 4),
    "a hook file": (parse, HOOK, 8),
    "a result": (result.parse, b'{"plugin":"a","spec":%b}', 2),
}
"""What reads a text, a text around an array, and how many values that has besides."""
ELEMENTS = [b'"a"', '"\u00e9"'.encode(), b'"\xff"', rb'"\ud800"', b'",[{"', b"[]", b"{}"]
FEW = 1000
"""The limit of these tests: the same code counts up to the real one, a hundred times as long."""


def test_a_text_may_have_so_many_values_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gojson, "MAX_VALUES", FEW)
    for read, around, others in READERS.values():
        for element in ELEMENTS:
            most = [element] * (FEW - others - 1)
            read(around % b"[%b]" % b",".join(most))
            with pytest.raises((ValueError, NRIError), match=f"more than {FEW} values"):
                read(around % b"[%b]" % b",".join([*most, element]))
