"""The site: `make docs` builds it into build/docs. Pages of tasks, commands and the API are written by generate.py first."""

import sys
from pathlib import Path

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
