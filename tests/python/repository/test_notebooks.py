"""The notebooks are stories: a question, cells that run, an answer printed from what they computed. They are kept without outputs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import matplotlib.font_manager  # noqa: F401 (builds its cache of fonts, of which a first notebook would warn)
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget

FOLDER = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


ANSWER = re.compile(r'Markdown\(f"""(.*)"""\)', re.DOTALL)


def code_of(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_nine_and_they_are_numbered():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{i:02d}_" for i in range(1, 10)]


@every
def test_it_is_kept_clean(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and not cell.get("execution_count")
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}


@every
def test_it_is_short_and_asks_a_question_that_it_answers(path):
    notebook = nbformat.read(path, 4)
    title = notebook.cells[0].source.splitlines()[0]
    assert title.startswith("# ") and title.endswith("?"), title
    lines = [line for source in code_of(notebook) for line in ANSWER.sub("Markdown(text)", source).splitlines() if line.strip()]
    assert len(lines) < (110 if path.stem == "08_recording_a_run" else 60)  # five training loops are its subject
    assert max(len(line) for cell in notebook.cells for line in cell.source.splitlines()) <= 150
    assert notebook.cells[-2].source == "## Answer" and "answer" in notebook.cells[-1].metadata.tags


@every
def test_its_answer_holds_no_number_but_computed_ones(path):
    """What stands in the answer's text outside of braces: no decimals, so that a number which changes cannot stay behind."""
    text = ANSWER.search(code_of(nbformat.read(path, 4))[-1]).group(1)
    prose = re.sub(r"\{[^{}]*\}", "", re.sub(r"\[[^\[\]]*\]\([^()]*\)", "", text))
    assert not re.search(r"\d\.\d|\d ?%", prose), prose
    assert re.search(r"\{[^{}]*:[.,\d]*[fge%]\}", text), text


@every
def test_links_lead_to_files(path):
    cells = nbformat.read(path, 4).cells
    for cell in [cell for cell in cells if cell.cell_type == "markdown"]:
        for target in re.findall(r"\]\(([^)]+)\)", cell.source):
            assert (FOLDER / target).exists(), target


@every
def test_it_runs(path, tmp_path, monkeypatch):
    if "import torch" in "".join(code_of(nbformat.read(path, 4))):
        pytest.importorskip("torch")
    monkeypatch.setattr(OutputWidget, "sync_state", lambda self: None)  # a front end's echo, which can stall the next reply
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, 4)
    monkeypatch.setenv("PET_LOCAL_ADDR", "127.0.0.1")  # torchrun's: a machine's own name need not be one that it can reach
    NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    state = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    outputs += [output for model in state.values() for output in model["state"].get("outputs", [])]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any("image/png" in o.get("data", {}) or "text/html" in o.get("data", {}) for o in outputs)
    texts = [o.get("text", "") + "".join(str(v) for kind, v in o.get("data", {}).items() if not kind.startswith("image/")) for o in outputs]
    for place in (str(FOLDER.parent), str(tmp_path), os.path.expanduser("~/")):
        if len(Path(place).parts) == 1:
            continue  # every path begins so
        assert not [text for text in texts if place in text], place
    answer = cells[-1].outputs[-1]["data"]["text/markdown"]
    assert re.search(r"\d", answer) and "nan" not in answer.lower().split()
    for cell in cells:
        if "slider" in cell.metadata.get("tags", []):
            assert any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in cell.outputs)
