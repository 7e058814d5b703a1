"""Sphinx's configuration. Its source folder is the repository, so that links between files hold in the site, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import messages

project = "v010-adapter"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
include_patterns = [
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/**",
    "hooks.d/README.md",
    "deploy/helm/nri-v010-adapter/README.md",
    "examples/project/README.md",
    "legacy-plugins/README.md",
    "tests/rig/README.md",
    "tests/turns/model/README.md",
]
exclude_patterns = [".*", "**/__pycache__"]
root_doc = "docs/index"
html_theme = "furo"
html_title = project
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"  # a prompt and what a command prints are not copied
templates_path = ["."]
myst_heading_anchors = 3
default_role = "code"  # docstrings put code between single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
autoclass_content = "both"


def drop_words_of_python(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Leaves out what Python itself says of named tuples."""
    lines[:] = [line for line in lines if not re.match(r"Create new instance of |Alias for field number \d", line)]


def name_what_handlers_return(app: Any, what: str, name: str, obj: object, *rest: Any) -> tuple[str, str] | None:
    """Shows the alias `Handled` where its definition would take three lines."""
    shown, returned = rest[-2:]
    handled = re.match(r"\W*(?:\w+\.)*(\w+) \| .*Deferred\[.*Coroutine\[", returned or "")
    return (shown, f"Handled[{handled[1]}]") if handled else None


def add_messages(app: Any, page: str, source: list[str]) -> None:
    """Puts the tables of NRI's messages into their page."""
    source[0] = source[0].replace(messages.MARK, "\n".join(messages.tables()))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_messages)
    app.connect("autodoc-process-docstring", drop_words_of_python)
    app.connect("autodoc-process-signature", name_what_handlers_return)
