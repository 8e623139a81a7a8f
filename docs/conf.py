"""The site: `make docs` builds it into build/docs. Pages of tasks, commands and the API are written by generate.py first."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generate

import trilith

project = "trilith"
author = "The trilith authors"
copyright = author
release = version = trilith.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["build", "**/.ipynb_checkpoints"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks keep the outputs that tools/notebooks.py stored
default_role = "literal"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "trilith"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False

generate.write_pages(Path(__file__).parent / "reference")

ACCESSIBLE = {
    r'<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    r'<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    r"<pre>": '<pre tabindex="0">',  # what scrolls can be reached by the keyboard
    r'<div class="(table-wrapper [^"]*)">': r'<div class="\1" tabindex="0">',
}
"""What the theme lacks for screen readers and keyboards, by patterns that no longer match once they are replaced."""


def make_accessible(app: Any, failed: Exception | None) -> None:
    """Completes the pages that were written."""
    for path in Path(app.outdir).glob("**/*.html") if not failed else ():
        text = written = path.read_text(encoding="utf-8")
        for pattern, replacement in ACCESSIBLE.items():
            text = re.sub(pattern, replacement, text)
        if text != written:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("build-finished", make_accessible)
