"""The documentation site, made by `make docs`: README.md, the pages of docs/ and the notebooks.

Sphinx reads the repository from its root, so that the links between the pages are those of the
files. Notebooks are run once and then taken from a cache until they or the package change. Nothing
is fetched while building or reading.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from nbclient.output_widget import OutputWidget

from apscope import schemes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "apscope"
copyright = "apscope's authors, Apache-2.0"
version = release = re.findall(
    r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
)[0]


def notebook(path: Path) -> str:
    """Its line in the navigation; the headings are whole questions."""
    number, _, words = path.stem.partition("_")
    words = re.sub(r"\baps\b", "APS", words.replace("_", " "))
    return f"{int(number)} {words} <notebooks/{path.stem}>"


def package() -> str:
    """Digest of the code behind the notebooks: the package's Python files and extension modules."""
    digest = hashlib.sha256()
    for folder, pattern in (
        ("bindings/apscope", "*.py"),
        ("bindings/apscope", "*.so"),
        ("build/release/bindings", "*.so"),
    ):
        for path in sorted((ROOT / folder).rglob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


#: Every page, by chapter.
NAVIGATION = {
    "Start": ["self", "docs/tour"],
    "Answers": [
        "docs/reading",
        "docs/advice",
        "docs/reductions",
        "docs/scales",
        "docs/nodes",
        "docs/blocks_across_layers",
        "docs/search",
        "docs/limit",
        "docs/definitions",
        "docs/schemes",
    ],
    "Training": [
        "docs/training",
        "docs/insight",
        "docs/recipes",
        "docs/methods",
        "docs/matrix_units",
        "docs/torch",
        "docs/quickreduce",
        "docs/cpd",
    ],
    "Python": ["docs/api"],
    "Notebooks": [notebook(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))],
    "C++": [
        "docs/cpp",
        *(
            f"docs/cpp_{page}"
            for page in (
                "round_array",
                "gemm",
                "allreduce_orders",
                "replay_trace",
                "ranks",
                "reference",
            )
        ),
    ],
    "Traces and results": [
        "docs/recording",
        "docs/cut",
        "docs/dumps",
        "docs/trace_format",
        "docs/results_format",
        "docs/limits",
        "notebooks/data/README",
    ],
    "Proofs and speed": ["docs/conformance", "docs/what_holds", "docs/performance"],
    "Inside": [
        "docs/design",
        "docs/ARCHITECTURE",
        "docs/extending",
        "docs/style",
        "CONTRIBUTING",
        "CHANGELOG",
    ],
}

root_doc = "README"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "breathe",
]
breathe_projects = {"apscope": str(ROOT / "build" / "docs-cpp" / "xml")}  # of doxygen docs/Doxyfile
breathe_default_project = "apscope"
cpp_id_attributes = ["APSCOPE_API"]
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/api/*.rst",
    "notebooks/*.ipynb",
    "notebooks/data/README.md",
]

myst_heading_anchors = 4
logging.getLogger("traitlets").setLevel(logging.ERROR)  # that a kernel starts
# The echo of a front end that is not there; it can keep a slider's cell waiting for the timeout.
OutputWidget.sync_state = lambda _: None
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "docs-notebooks" / package())
nb_execution_timeout = 120
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # by default from a server

# docs/api.md lists the public names; autosummary writes a page each into docs/api, from the
# docstrings.
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_generate_overwrite = True
autodoc_typehints = "none"  # the docstrings say what is taken
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "py:obj"
templates_path = [str(ROOT / "docs" / "templates")]

html_theme = "furo"
html_title = "apscope"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "font-stack": "system-ui, sans-serif",
    },
    "dark_css_variables": {"color-brand-primary": "#8ab8ee", "color-brand-content": "#8ab8ee"},
}
html_static_path = ["site"]
html_css_files = ["site.css"]


def add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Give README.md, the first page, the site's table of contents."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            source[0] += "\n".join(
                ["", "", "```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```", ""]
            )


def write_index(app: Sphinx, error: Exception | None) -> None:
    """The first page under the name that servers look for."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(app.outdir / "README.html", app.outdir / "index.html")


def write_scheme_classes() -> None:
    """The page of the scheme classes; autosummary makes a page for each class of the registry."""
    names = [d.class_name for d in schemes.definitions()]
    text = f"""apscope.schemes: a class for every scheme
=========================================

.. currentmodule:: apscope.schemes
.. autosummary::
   :toctree: .

   {(chr(10) + "   ").join(names)}
"""
    page = ROOT / "docs" / "api" / "scheme_classes.rst"
    page.parent.mkdir(exist_ok=True)
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def setup(app: Sphinx) -> None:
    write_scheme_classes()
    # What the C++ library's reference is made of, for breathe.
    (ROOT / "build" / "docs-cpp").mkdir(parents=True, exist_ok=True)
    subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=True)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_index)
