"""The notebooks are stories: a question, cells that run, an answer printed from what they computed.
They are stored with what they print and draw."""

import base64
import io
import itertools
import os
import re
from pathlib import Path

import matplotlib.image
import nbformat
import numpy as np
import pytest

from docs.tools import notebooks
from docs.tools.page import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


ANSWER = re.compile(r'Markdown\(f"""(.*)"""\)', re.DOTALL)


def code_of(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_thirteen_and_they_are_numbered():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{i:02d}_" for i in range(1, 14)]


@every
def test_it_is_stored_with_outputs_that_do_not_change_by_themselves(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebooks.stripped(notebook) == notebook and set(notebook.metadata) <= {"kernelspec"}
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert len(outputs) >= 4 and notebook.cells[-1].outputs, "run make notebooks"
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert path.stat().st_size < 700_000
    text = path.read_text()
    assert (
        " at 0x" not in text
        and "widget-view" not in text
        and not re.search(r"T_[0-9a-f]{5}\b", text)
    )


def pictures_of(notebook):
    """Place of the cell and pixels of every stored picture; of one stored as words alone, None."""
    found = []
    for i, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                held = io.BytesIO(base64.b64decode(data["image/png"]))
                found.append((i, matplotlib.image.imread(held)))
            elif re.match(r"<(Figure|Axes|_?\w*Subplot|matplotlib)", data.get("text/plain", "")):
                found.append((i, None))
    return found


def flaws_of(notebook):
    """Figures that are stored as words alone, and pictures that are stored twice."""
    pictures = pictures_of(notebook)
    found = [f"cell {i} has a figure without a picture" for i, held in pictures if held is None]
    held = [(i, picture) for i, picture in pictures if picture is not None]
    for (i, one), (j, other) in itertools.combinations(held, 2):
        if one.shape == other.shape and float(np.abs(one - other).mean()) < 1e-3:
            found.append(f"cells {i} and {j} have the same picture")
    return found


@every
def test_every_figure_is_stored_as_a_picture_and_once(path):
    assert flaws_of(nbformat.read(path, 4)) == []


def test_a_figure_without_a_picture_and_one_stored_twice_are_found():
    def cell(**data):
        output = nbformat.v4.new_output("display_data", data)
        return nbformat.v4.new_code_cell("", outputs=[output])

    words = {"text/plain": "<Figure size 540x360 with 1 Axes>"}
    once = [cell(**words, **{"image/png": PICTURE}), cell(**words, **{"image/png": OTHER})]
    notebook = lambda *cells: nbformat.v4.new_notebook(cells=list(cells))
    assert flaws_of(notebook(*once)) == []
    assert flaws_of(notebook(cell(**words), *once)) == ["cell 0 has a figure without a picture"]
    twice = [*once, cell(**{"image/png": PICTURE})]
    assert flaws_of(notebook(*twice)) == ["cells 0 and 2 have the same picture"]


@every
def test_it_is_short_and_asks_a_question_that_it_answers(path):
    notebook = nbformat.read(path, 4)
    title = notebook.cells[0].source.splitlines()[0]
    assert title.startswith("# ") and title.endswith("?"), title
    lines = [
        line
        for source in code_of(notebook)
        for line in ANSWER.sub("Markdown(text)", source).splitlines()
        if line.strip()
    ]
    # Five training loops are its subject.
    assert len(lines) < (110 if path.stem == "08_recording_a_run" else 60)
    assert max(len(line) for cell in notebook.cells for line in cell.source.splitlines()) <= 150
    assert notebook.cells[-2].source == "## Answer" and "answer" in notebook.cells[-1].metadata.tags


@every
def test_its_answer_holds_no_number_but_computed_ones(path):
    """The answer's text outside of braces has no decimals, so that no outdated number can
    remain."""
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


#: Writes the faults of pyplot's pictures into a file, as they are shown.
CHECKED = """
import sys
sys.path.insert(0, {root!r})
from matplotlib_inline import backend_inline
from tests.python.drawn_labels import faults

def checked(figure, *args, show=backend_inline.display, **named):
    with open({told!r}, "a") as file:
        file.writelines(f"{{line}}\\n" for line in ["shown", *faults(figure)])
    return show(figure, *args, **named)

backend_inline.display = checked
"""


@every
def test_it_runs_and_prints_what_is_stored(path, tmp_path, monkeypatch):
    if "import torch" in "".join(code_of(nbformat.read(path, 4))):
        pytest.importorskip("torch")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = tmp_path / "faults"
    told.touch()
    notebook = notebooks.executed(path, CHECKED.format(root=str(ROOT), told=str(told)))
    shown = told.read_text().splitlines()
    assert set(shown) <= {"shown"}, shown  # every label can be read
    assert shown or "plt.subplots" not in "".join(code_of(notebook))

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    state = (
        notebook.metadata.get("widgets", {})
        .get("application/vnd.jupyter.widget-state+json", {})
        .get("state", {})
    )
    outputs += [output for model in state.values() for output in model["state"].get("outputs", [])]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any(
        "image/png" in o.get("data", {}) or "text/html" in o.get("data", {}) for o in outputs
    )
    texts = [
        o.get("text", "")
        + "".join(str(v) for kind, v in o.get("data", {}).items() if not kind.startswith("image/"))
        for o in outputs
    ]
    for place in (str(FOLDER.parent), str(tmp_path), os.path.expanduser("~/")):
        if len(Path(place).parts) == 1:
            continue  # every path begins so
        assert not [text for text in texts if place in text], place
    answer = cells[-1].outputs[-1]["data"]["text/markdown"]
    assert re.search(r"\d", answer) and "nan" not in answer.lower().split()
    for cell in cells:
        if "slider" in cell.metadata.get("tags", []):
            assert any(
                "application/vnd.jupyter.widget-view+json" in o.get("data", {})
                for o in cell.outputs
            )
    assert not notebooks.differences(nbformat.read(path, 4), notebooks.stripped(notebook)), (
        "run make notebooks"
    )


def test_what_changes_is_left_out_and_what_differs_is_found():
    def made(text, picture=PICTURE, table="T_1a2b3", count=3):
        cell = nbformat.v4.new_code_cell(
            "1",
            execution_count=count,
            metadata={"tags": ["a"], "execution": {"t": str(count)}},
            id="x",
        )
        html = f'<table id="{table}"><td id="{table}_row0">{text}</td></table>'
        data = {
            "text/html": html,
            "text/plain": f"<Styler at 0x7f{count:06x}>",
            "image/png": picture,
        }
        cell.outputs = [
            nbformat.v4.new_output("execute_result", data, execution_count=count),
            nbformat.v4.new_output("stream", text=text),
        ]
        return nbformat.v4.new_notebook(
            cells=[cell],
            metadata={
                "kernelspec": {"name": "python3", "display_name": "P"},
                "widgets": {"x": count},
            },
        )

    one = notebooks.stripped(made("error 0.00331 in 52 steps"))
    assert one == notebooks.stripped(
        made("error 0.00331 in 52 steps", table="T_ffff0", count=7)
    ) and one.cells[0].metadata == {"tags": ["a"]}
    assert (
        one.cells[0].outputs[0].data["text/plain"] == "<Styler>"
        and 'id="T_0_row0"' in one.cells[0].outputs[0].data["text/html"]
    )
    assert not notebooks.differences(one, notebooks.stripped(made("error  0.00331 in 52 steps")))
    for text in ("error 0.00332 in 52 steps", "errors 0.00331 in 52 steps", "error 0.00331 in 52"):
        assert len(notebooks.differences(one, notebooks.stripped(made(text)))) == 2
    found = notebooks.differences(
        one, notebooks.stripped(made("error 0.00331 in 52 steps", picture=OTHER))
    )
    assert found == ["cell 0, image/png"]


def test_a_trained_number_is_compared_by_its_spread_and_others_digit_for_digit():
    text = "run 3: 0.10 ± 0.02 nats"
    for end in ("0.14 ± 0.03 nats", "0.08 ± 0.00 nats", " -0.01 ± 0.08 nats"):
        other = f"run 3: {end}"
        assert notebooks.unlike(text, other, ["trained"]) is None, other
        for tags in ([], ["kernels"], ["answer"]):
            assert notebooks.unlike(text, other, tags) is not None, other
    for other, first in (
        ("run 3: 0.17 ± 0.03 nats", ("0.10 ± 0.02", "0.17 ± 0.03")),
        ("run 4: 0.10 ± 0.02 nats", ("3:", "4:")),
        ("run 3: 0.10 ± 0.02 nat", ("nats", "nat")),
        ("run 3: 0.10 nats", ("#", "0.10")),
    ):
        assert notebooks.unlike(text, other, ["trained"]) == first


def test_a_number_of_kernels_may_differ_a_little():
    text = "4 of 5: 0.229 and 6.7e-04"
    for other in ("4 of 5: 0.233 and 6.7e-04", "4 of 5: 0.228 and 6.8e-04"):
        assert notebooks.unlike(text, other, ["kernels"]) is None
        assert notebooks.unlike(text, other) is not None
    for other in ("0.236 and 6.7e-04", "0.229 and 7.0e-04", "0.229 and -6.7e-04"):
        assert notebooks.unlike(text, f"4 of 5: {other}", ["kernels"]) is not None
    for other in ("3 of 5: 0.229 and 6.7e-04", "4 of 5: 0.229 or 6.7e-04", "4 of 5: 0.229"):
        assert notebooks.unlike(text, other, ["kernels"]) is not None


@every
def test_a_number_of_kernels_is_in_a_cell_that_says_so(path):
    """Of a notebook that uses PyTorch: no number with decimals is compared digit for digit, and a
    trained one stands with its spread."""
    notebook = nbformat.read(path, 4)
    if "import torch" not in "".join(code_of(notebook)):
        return
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        for output in cell.get("outputs", []):
            texts = [output.get("text", ""), *(output.get("data", {}).values())]
            for text in [text for text in texts if not text.startswith("iVBOR")]:
                if notebooks.TRAINED in tags:
                    text = notebooks._SPREAD.sub("", text)
                elif notebooks.KERNELS in tags:
                    continue
                numbers = re.findall(r"(?<!arXiv:)(?<![.\dv])\d+\.\d+", text)
                assert not numbers, (cell.source[:60], numbers)


def drawn(value):
    """A picture of one colour, as base64."""
    stream = io.BytesIO()
    matplotlib.image.imsave(stream, np.full((8, 8, 3), value, np.uint8), format="png")
    return base64.b64encode(stream.getvalue()).decode()


PICTURE, OTHER = drawn(200), drawn(180)


def test_of_a_slider_its_picture_is_kept_and_of_a_page_its_line():
    view = nbformat.v4.new_output(
        "display_data",
        {
            "application/vnd.jupyter.widget-view+json": {"model_id": "box"},
            "text/plain": "interactive",
        },
    )
    page = nbformat.v4.new_output(
        "execute_result",
        {"text/html": "x" * 200_000, "text/plain": "<Explorer>"},
        execution_count=1,
    )
    inside = {
        "output_type": "display_data",
        "data": {"image/png": PICTURE, "text/plain": "<Figure>"},
        "metadata": {},
    }
    state = {
        "box": {"state": {"children": ["IPY_MODEL_slider", "IPY_MODEL_out"]}},
        "slider": {"state": {}},
        "out": {"state": {"outputs": [inside]}},
    }
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[view, page])])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": state}}
    outputs = notebooks.stripped(notebook).cells[0].outputs
    assert [dict(o.data) for o in outputs] == [inside["data"], {"text/plain": "<Explorer>"}]
