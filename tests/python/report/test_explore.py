"""The report's page in a notebook cell: the same page, alive in its frame, from an executed
notebook."""

import html
import re

import pytest

import apscope
from apscope._report import page
from tests.python.browser import CHROMIUM, Browser

SPECS = ["none:bf16", "aps:e3m4", "loss_scaling:e3m4,scale=largest"]


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "results"
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SPECS,
        steps=[0, 8, 1500],
        topology=["ring"],
    ).save(path)


@pytest.fixture(scope="module")
def cell(folder):
    """The output of explore(results) in an executed notebook: its HTML and its text."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(
                f"import apscope\napscope.explore(apscope.Results.open({str(folder)!r}))"
            )
        ]
    )
    nbclient.NotebookClient(
        notebook, timeout=300, startup_timeout=300, kernel_name="python3"
    ).execute()
    (output,) = [o for o in notebook.cells[0].outputs if o["output_type"] == "execute_result"]
    return output["data"]


def test_a_notebook_keeps_the_reports_page(cell, folder):
    srcdoc = re.search(r'srcdoc="([^"]*)"', cell["text/html"])[1]
    kept = html.unescape(srcdoc)
    assert kept == page(folder) == apscope.explore(folder).page
    assert (
        "<iframe" in cell["text/html"]
        and 'sandbox="allow-scripts allow-downloads"' in cell["text/html"]
    )
    assert cell["text/plain"].startswith("<Explorer: a page of ") and len(cell["text/plain"]) < 200


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_is_alive_in_its_frame_and_asks_for_nothing(cell, tmp_path):
    (tmp_path / "cell.html").write_text(
        f"<!doctype html><meta charset=utf-8><title>cell</title>{cell['text/html']}"
    )
    browser = Browser(1100, 1000)
    try:
        browser.open((tmp_path / "cell.html").as_uri())
        assert all(r.startswith("file:") for r in browser.requests)
        browser.enter_frame()
        browser.wait("window.apscopePage")
        browser.run("window.apscopePage.drawAll()")
        assert browser.run("document.querySelectorAll('.live svg').length") > 2
        assert browser.run("window.apscopePage.data.schemes.map(s => s.spec)") == SPECS
        assert browser.messages == []
        # The page cannot read the notebook around it.
        assert (
            browser.run(
                "(() => { try { return window.parent.document.title "
                "} catch (e) { return e.name } })()"
            )
            == "SecurityError"
        )
    finally:
        browser.close()


def test_what_is_no_results_is_one_sentence(folder):
    with pytest.raises(TypeError, match="results is of type int; give Results, or the path"):
        apscope.explore(5)
    with pytest.raises(ValueError, match="height=10 is not between 200 and 10000"):
        apscope.explore(folder, height=10)
    with pytest.raises(ValueError, match="is neither a trace nor a RESULTS folder"):
        apscope.explore(folder.parent)


def test_names_cannot_leave_the_frame(folder):
    results = apscope.Results.open(folder)
    results.frame["tensor"] = results.frame["tensor"].replace(
        {"head.bias": '"></iframe><script>alert(1)</script>'}
    )
    shown = apscope.explore(results)._repr_html_()
    assert shown.count("<") == 2 and "<script" not in shown  # the frame's two tags
