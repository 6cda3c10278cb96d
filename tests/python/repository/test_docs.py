"""The documentation site has every page, and all links between pages are valid."""

import importlib
import importlib.util
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import apscope
from apscope._results.figures import FIGURES
from tests.python.argv import argv

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").glob("*.md")), ROOT / "notebooks/data/README.md", *NOTEBOOKS]


def markdown(page: Path) -> str:
    """A page's text without its samples; of a notebook, its Markdown cells."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        text = "\n\n".join(
            "".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown"
        )
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a link may name: the headings as GitHub and the site spell them."""
    headings = re.findall(r"^#+ +(.+)$", markdown(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def broken(page: Path) -> list[str]:
    """The links that lead to no file of the repository, or to no heading of it."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", markdown(page))):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not link.startswith("https://") and (
            not target.is_file() or (anchor and anchor not in anchors(target))
        ):
            found.append(link)
    return found


#: "is no number", where docs/style.md asks for "is not a number".
_RIDDLES = re.compile(
    r"\b(?:is|are|was|were)\s"
    r"(?:no (?:such|message|better|worse|noise|number|size|trace)\b|none of an?\b)"
)


def test_negations_are_plain():
    """In pages, comments and messages; docs/style.md itself shows the two side by side."""
    assert _RIDDLES.search("unit=row is no number of elements")
    folders = ("analysis", "bindings", "core", "docs", "emulation")
    kinds = {".cpp", ".h", ".cu", ".html", ".js", ".md", ".py"}
    texts = [p for name in folders for p in (ROOT / name).rglob("*") if p.suffix in kinds]
    texts += TOP
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in texts
        if path.name != "style.md"
        for found in _RIDDLES.finditer(path.read_text(encoding="utf-8"))
        if not path.read_text(encoding="utf-8")[: found.start()].lower().endswith("there ")
    ]
    assert len(texts) > 300 and told == []


def listed_names() -> dict[str, list[str]]:
    """Module -> names, as the API reference lists them."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in (ROOT / "docs/api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.setdefault(module, []).append(line.strip())
    return found


def test_the_api_reference_lists_the_public_names_and_no_others():
    has_torch = importlib.util.find_spec("torch") is not None
    modules = [
        "apscope",
        *(f"apscope.{m}" for m in apscope._MODULES if m != "studies"),
        *(f"apscope.{m}" for m in apscope._EXTRAS if has_torch),
        *(f"apscope.studies.{m}" for m in apscope.studies.__all__),
    ]
    not_listed = {
        "apscope": {*apscope._MODULES, "__version__"},
        "apscope.schemes": {d.class_name for d in apscope.schemes.definitions()},
    }
    public = {
        m: set(importlib.import_module(m).__all__) - not_listed.get(m, set()) for m in modules
    }
    listed = listed_names()
    for m in apscope._EXTRAS:
        if not has_torch:
            del listed[f"apscope.{m}"]
    assert {m: sorted(names) for m, names in listed.items()} == {
        m: sorted(names) for m, names in public.items()
    }


def test_what_the_cpp_library_lacks_is_told():
    """A public name of Python's is in the C++ headers, or stands below "What is not there"."""
    headers = [
        *(ROOT / "bindings/cpp/apscope").glob("*.h"),
        *(
            ROOT / f"core/{name}.h"
            for name in ("float_format", "named_formats", "block_format", "projection")
        ),
    ]
    text = "\n".join(path.read_text() for path in headers)
    there = {
        *re.findall(r"(?:struct|class|class APSCOPE_API) (\w+) \{", text),
        *re.findall(r"\b(\w+)\(", text),
    }
    there |= {"quantize_blocks", "encode_blocks", "decode_blocks"}  # a BlockQuantizer's
    told = set(
        re.findall(
            r"`(?:apscope\.)?(\w+)`",
            (ROOT / "docs/cpp.md").read_text().partition("## What is not there")[2],
        )
    )
    # What functions return, and arrays in a GPU's memory.
    names = set(apscope.__all__) - {"__version__", "types", "cuda"}
    assert names - (there - set(apscope._MODULES)) == names & told


def test_the_site_lists_every_page():
    chapters = runpy.run_path(str(ROOT / "docs/conf.py"))["NAVIGATION"].values()
    listed = [re.sub(r".* <(.*)>", r"\1", page) for chapter in chapters for page in chapter]
    assert sorted(listed) == sorted(
        [
            "self",
            *(
                p.relative_to(ROOT).with_suffix("").as_posix()
                for p in PAGES
                if p != ROOT / "README.md"
            ),
        ]
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_its_links_lead_somewhere(page):
    assert not broken(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_formula_wants_a_script(page):
    """The site carries none for TeX; formulas are code."""
    assert not re.search(r"\$[^$`]+\$", re.sub(r"`[^`]*`", "", markdown(page)))


def test_links_to_nowhere_are_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text(
        "# A `b`: c\n\n[x](b.md), [y](#a-b-c), [z](#d), `[w](e.md)`, [f](.), [g](a.md#e), "
        "[h](https://b.org)\n"
    )
    assert broken(page) == ["b.md", "#d", ".", "a.md#e"]


def test_the_reference_describes_every_figure_of_a_summary():
    """Doxygen reads the header through a filter, which writes the list out."""
    filtered = argv("awk -f docs/tools/figure_fields.awk bindings/cpp/apscope/summary.h")
    header = subprocess.run(filtered, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described = re.findall(r"^    /// (\S.*\.)\n    \S+ (\w+) = 0;$", header, re.MULTILINE)
    of_rows = [f for f in FIGURES if f.columns == (f.name,) and not f.modelled]
    wanted = [f.name for f in of_rows if f.name not in ("worst_layer", "worst_step")]
    assert [name for _, name in described][: len(wanted)] == wanted
    assert "#include" not in header.partition("struct SummaryRow")[2]


@pytest.mark.skipif(not shutil.which("doxygen"), reason="doxygen is not installed")
def test_doxygen_alone_makes_the_cpp_reference(tmp_path):
    """With a warning it fails; Python is in no path."""
    for tool in ("doxygen", "sh", "sed", "awk"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or tool)
    settings = f"{(ROOT / 'docs/Doxyfile').read_text()}\nOUTPUT_DIRECTORY = {tmp_path}\n"
    run = subprocess.run(
        ["doxygen", "-"],
        input=settings,
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "The public headers" in (tmp_path / "html/index.html").read_text()
    row = (tmp_path / "html/structapscope_1_1SummaryRow.html").read_text()
    assert all(f.name in row for f in FIGURES if f.columns == (f.name,) and not f.modelled)


def test_sphinx_makes_it_without_a_warning(tmp_path):
    """Notebooks are not run here: they are run by their own test."""
    for module in ("sphinx", "furo", "myst_nb", "breathe"):
        pytest.importorskip(module)
    if shutil.which("doxygen") is None:
        pytest.skip("doxygen, which makes the C++ reference, is not installed")
    command = argv(
        "{} -m sphinx --builder html --conf-dir {} --doctree-dir {} --fail-on-warning "
        "--keep-going --quiet --define nb_execution_mode=off {} {}",
        sys.executable,
        ROOT / "docs",
        tmp_path / "pages",
        ROOT,
        tmp_path / "site",
    )
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {tmp_path / "site" / p.relative_to(ROOT).with_suffix(".html") for p in PAGES} <= set(
        pages
    )
    classes = {"apscope.schemes": [d.class_name for d in apscope.schemes.definitions()]}
    for module, names in [*listed_names().items(), *classes.items()]:
        for name in names:  # a page each, with its signature or its description
            assert (
                f'id="{module}.{name}"'
                in (tmp_path / f"site/docs/api/{module}.{name}.html").read_text()
            )
    assert (tmp_path / "site/index.html").read_text() == (tmp_path / "site/README.html").read_text()
    fetched = re.compile(
        r"""<(?:script|img|iframe)[^>]* src=["']?(?:https?:)?//|<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//"""
    )
    assert not [p.name for p in pages if fetched.search(p.read_text())]
