"""Runs the notebooks and stores them with their outputs, without what changes from run to run: python -m docs.tools.notebooks [NAME...]

What is left out: numbers of executions, times, addresses in memory, names that pandas draws for its
tables, the state of widgets. A slider's picture stays in its place, as it was drawn first; of a
page in a cell, which a forge would not show, its line of text. A notebook that fails is not
written.
"""

import argparse
import base64
import io
import itertools
import os
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # builds its cache of fonts, of which a first notebook would warn
import matplotlib.image
import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget
from nbformat import NotebookNode

from .page import ROOT

FOLDER = ROOT / "notebooks"
#: Letters of an HTML output that is stored: a table. The report's page has millions.
LONGEST = 100_000
#: The tag of cells whose numbers come from training: they follow the last bits of PyTorch's and the
#: BLAS's kernels, which differ with the processor. Every such number stands with its spread over
#: the seeds, as 0.08 ± 0.02.
TRAINED = "trained"
#: The tag of cells whose numbers come from such kernels but do not enter a training: one that has
#: decimals may differ by a unit of its last digit and by this much, relatively.
KERNELS, CLOSE = "kernels", 0.02
#: Of a picture: how far apart the pixels of two drawings may be, in the mean, of 255. Letters are
#: drawn a little differently by other versions.
ALIKE = 4.0

_STATE = "application/vnd.jupyter.widget-state+json"
_VIEW = "application/vnd.jupyter.widget-view+json"


def paths(names: list[str] | None = None) -> list[Path]:
    """The notebooks, or those whose names hold one of `names`."""
    return [
        path
        for path in sorted(FOLDER.glob("*.ipynb"))
        if not names or any(name in path.name for name in names)
    ]


def executed(path: Path, before: str = "") -> NotebookNode:
    """A notebook as it is after a run, in the folder of notebooks; `before` is code to run first."""
    os.environ["PET_LOCAL_ADDR"] = (
        "127.0.0.1"  # torchrun's: a machine's own name need not be one that it can reach
    )
    OutputWidget.sync_state = lambda _: None  # a front end's echo, which can stall the next reply
    notebook = nbformat.read(path, 4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(before))
    NotebookClient(
        notebook,
        timeout=300,
        startup_timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    ).execute()
    del notebook.cells[0]
    return notebook


def stripped(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what changes from run to run."""
    models = notebook.metadata.get("widgets", {}).get(_STATE, {}).get("state", {})
    metadata = {
        name: notebook.metadata[name] for name in ("kernelspec",) if name in notebook.metadata
    }
    result = nbformat.from_dict(notebook | {"metadata": metadata})
    for cell in result.cells:
        cell.metadata = nbformat.from_dict(
            {name: value for name, value in cell.metadata.items() if name == "tags"}
        )
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [
                _plain(output) for one in cell.outputs for output in _pictures(one, models)
            ]
    return result


def _pictures(output: NotebookNode, models: dict[str, Any]) -> list[NotebookNode]:
    """An output; in place of a widget what it drew."""
    if _VIEW not in output.get("data", {}):
        return [output]
    inside, left = [], [output["data"][_VIEW]["model_id"]]
    while left:
        state = models[left.pop(0)]["state"]
        inside += state.get("outputs", [])
        left += [child.removeprefix("IPY_MODEL_") for child in state.get("children", [])]
    return [nbformat.from_dict(one) for one in inside]


def _plain(output: NotebookNode) -> NotebookNode:
    result = nbformat.from_dict(dict(output))
    if "execution_count" in result:
        result.execution_count = None
    if result.output_type == "stream":
        result.text = _text(result.text)
    else:
        kept = {
            kind: value
            for kind, value in result.data.items()
            if kind != "text/html" or len(value) <= LONGEST
        }
        result.data = nbformat.from_dict(
            {
                kind: value if kind.startswith("image/") else _text(value)
                for kind, value in kept.items()
            }
        )
    return result


def _text(text: str) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    names = dict.fromkeys(re.findall(r'(?<=<table id=")T_[0-9a-f]{5}(?=")', text))
    for i, name in enumerate(names):
        text = text.replace(name, f"T_{i}")
    return text


def differences(stored: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Differences in the outputs of two stripped notebooks.

    Texts are equal apart from blanks: the library's own numbers are the same on every processor.
    `TRAINED` and `KERNELS` say which numbers are not, and how far apart these may be.
    """
    found = []
    for i, (one, other) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        pair = (_outputs(one), _outputs(other))
        if list(pair[0]) != list(pair[1]):
            found.append(f"cell {i} has outputs {list(pair[0])}, now {list(pair[1])}")
            continue
        tags = one.metadata.get("tags", [])
        for place, value in pair[0].items():
            if place[1] == "image/png":
                if not alike(value, pair[1][place]):
                    found.append(f"cell {i}, {place[1]}")
            elif apart := unlike(value, pair[1][place], tags):
                found.append(f"cell {i}, {place[1]}: {apart[0]!r}, now {apart[1]!r}")
    return found


def _outputs(cell: NotebookNode) -> dict[tuple[int, str], str]:
    """Place and kind -> what stands there."""
    texts = {}
    for i, output in enumerate(cell.get("outputs", [])):
        data = {output.name: output.text} if output.output_type == "stream" else output.data
        texts |= {(i, kind): data[kind] for kind in sorted(data)}
    return texts


_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_DECIMALS = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
_SPREAD = re.compile(rf"({_NUMBER}) ± ({_NUMBER})")


def unlike(one: str, other: str, tags: Collection[str] = ()) -> tuple[str, str] | None:
    """The first difference of two texts of a cell with these tags; None if there is none."""
    compared = _SPREAD if TRAINED in tags else _DECIMALS if KERNELS in tags else None
    words = [(compared.sub("#", text) if compared else text).split() for text in (one, other)]
    for pair in itertools.zip_longest(*words, fillvalue=""):
        if pair[0] != pair[1]:
            return pair
    if compared:
        for left, right in zip(compared.finditer(one), compared.finditer(other), strict=True):
            if not _close(left, right):
                return left[0], right[0]
    return None


def _close(one: re.Match[str], other: re.Match[str]) -> bool:
    """Whether two numbers agree but for `CLOSE`; with spreads, whether these meet."""
    numbers = [match[0].split(" ± ") for match in (one, other)]
    value, spread = ([float(part[i]) for part in numbers] for i in (0, -1))
    unit = max(_unit(part[0]) for part in numbers)
    room = sum(spread) if len(numbers[0]) == 2 else CLOSE * max(map(abs, value))
    return abs(value[0] - value[1]) <= (room + unit) * (1 + 1e-9)


def _unit(number: str) -> float:
    """One in a number's last digit: 0.01 of 2.31, 1e-5 of 6.7e-04."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def alike(one: str, other: str) -> bool:
    """Whether two pictures, as base64, look the same."""
    if one == other:
        return True
    pixels = [
        255 * matplotlib.image.imread(io.BytesIO(base64.b64decode(data)))[..., :3]
        for data in (one, other)
    ]
    return (
        pixels[0].shape == pixels[1].shape and float(np.abs(pixels[0] - pixels[1]).mean()) < ALIKE
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="notebooks whose names hold one of these; all if none",
    )
    for path in paths(parser.parse_args(arguments).names):
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["TMPDIR"] = scratch
            notebook = stripped(executed(path))
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
