"""What Python's help shows of the package."""

from __future__ import annotations

import os
import subprocess
import sys

HELP = """
import pkgutil, pydoc
import adapter
for module in pkgutil.walk_packages(adapter.__path__, "adapter."):
    if not module.name.endswith("__main__"):
        print(pydoc.plaintext.document(pydoc.locate(module.name)))
"""


def test_no_help_of_any_module_shows_the_environment() -> None:
    environ = os.environ | {"NOBODY_MAY_READ": "swordfish"}
    shown = subprocess.run([sys.executable, "-c", HELP], env=environ, capture_output=True, text=True, check=True).stdout
    assert "connect(path: 'str' = ''" in shown
    assert "swordfish" not in shown
    assert "NOBODY_MAY_READ" not in shown
