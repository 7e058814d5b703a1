"""Sphinx's configuration. Its source folder is the repository, so that links between files hold in the site, too."""

project = "v010-adapter"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
include_patterns = [
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/**",
    "hooks.d/README.md",
    "deploy/helm/nri-v010-adapter/README.md",
    "legacy-plugins/README.md",
]
exclude_patterns = [".*", "**/__pycache__"]
root_doc = "docs/index"
html_theme = "furo"
html_title = project
html_additional_pages = {"index": "redirect.html"}
templates_path = ["."]
myst_heading_anchors = 3
default_role = "code"  # docstrings put code between single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
autoclass_content = "both"
