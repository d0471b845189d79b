"""The book by plain Sphinx: the way out of Jupyter Book 1, which the weekly job keeps open.

``sphinx-build -c book/plain . _build/plain``. What is configured is read from _config.yml; what
Jupyter Book adds to that is all here.
"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "book/_ext")]
book = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
configured = book["sphinx"]["config"]
globals().update(configured)

project = html_title = book["title"]
author, copyright = book["author"], book["copyright"]
exclude_patterns = book["exclude_patterns"]
extensions = [
    "myst_nb",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_external_toc",
    "sphinx_multitoc_numbering",
    "sphinx_togglebutton",
    "sphinxcontrib.bibtex",
    *book["sphinx"]["extra_extensions"],
    *book["sphinx"]["local_extensions"],
]
external_toc_exclude_missing = True  # as only_build_toc_files
myst_enable_extensions = book["parse"]["myst_enable_extensions"]
nb_execution_mode = book["execute"]["execute_notebooks"]
nb_output_stderr = book["execute"]["stderr_output"]
bibtex_bibfiles = [str(ROOT / path) for path in book["bibtex_bibfiles"]]
html_theme = "sphinx_book_theme"
html_logo, html_favicon = str(ROOT / book["logo"]), str(ROOT / book["html"]["favicon"])
html_static_path = [str(ROOT / path) for path in configured["html_static_path"]]
templates_path = [str(ROOT / path) for path in configured["templates_path"]]
suppress_warnings = ["myst.domains"]
