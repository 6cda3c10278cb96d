"""``python -m tests.fuzz.fuzz_results [libFuzzer's options] [CORPUS]``: RESULTS folders of others.
Needs atheris.

A small replay is made at the start. The first byte says which part of its folder is another
(`PARTS`) and the second what is asked of the results (`QUESTIONS`); the rest is that part. Digests
in provenance.json are made right, so that what lies behind them is reached.
"""

import copy
import functools
import hashlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.refusals import ODD_VALUES, atheris, instrumented, places, replaced, taken

with instrumented("apscope._results", "apscope._report", "apscope._folders", "apscope._text"):
    from apscope import Results, ladder, merge, open_trace, replay
    from apscope._report import page
    from apscope._results.problems import problems

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
#: Parts 0 to 3 are the files' bytes; of 4 the rest is edits (`edited`).
PARTS = ("provenance.json", "results.parquet", "histograms.parquet", "noise.parquet", "edits")
SCHEMES = ("aps:e4m3", "none:e4m3", "qsgd")
QUESTIONS: tuple[Callable[[Results, Path], Any], ...] = (
    lambda results, _: results.summary(),
    lambda results, _: results.compare(*SCHEMES[:2]),
    lambda results, _: results.decompose(*SCHEMES[:2]),
    lambda results, _: results.pool(["scheme", "tensor"]),
    lambda results, _: results.noise_facts(),
    lambda results, _: (repr(results), results._repr_html_()),
    lambda results, _: (results.incomplete, results.not_finite, results.all_zero),
    lambda results, _: ladder(results),
    lambda results, folder: merge([folder]),
    lambda results, folder: list(problems(folder)),
    lambda results, folder: results.save(folder.with_name("again"), force=True),
    lambda results, _: page(results),
    lambda results, _: page(results, results),
)
TABLES = PARTS[1:4]


@functools.cache
def whole() -> dict[str, bytes]:
    """The files of a RESULTS folder of a few rows."""
    trace = open_trace(HERE.parents[1] / "notebooks/data/digits")
    results = replay(trace, SCHEMES, topology=["ring"], steps="0:2", workers=2, tensors="bias")
    with tempfile.TemporaryDirectory() as place:
        folder = results.save(Path(place) / "results")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@functools.cache
def columns(name: str) -> dict[str, list]:
    return pq.read_table(pa.BufferReader(whole()[name])).to_pydict()


def edited(data: bytes) -> tuple[Any, dict[str, dict[str, list]]]:
    """Provenance and tables after edits of four bytes each: which, where (two bytes), and the
    value."""
    told, tables = (
        json.loads(whole()["provenance.json"]),
        {name: copy.copy(columns(name)) for name in TABLES},
    )
    for i in range(0, min(len(data) - 3, 64), 4):
        which, place, row, value = data[i : i + 4]
        odd = copy.deepcopy(ODD_VALUES[value % len(ODD_VALUES)])
        if which % 2 == 0:  # of the provenance
            every = list(places(told))
            told = replaced(told, every[(place * 256 + row) % len(every)], odd)
            continue
        table = tables[TABLES[which // 2 % 3]]
        if not table:
            continue
        name = list(table)[place % len(table)]
        cells = list(table[name])
        match which // 6 % 5:
            case 0:
                if cells:
                    cells[row % len(cells)] = None if odd is ... else odd
                table[name] = cells
            case 1:
                table[name] = [None if odd is ... else odd] * len(cells)
            case 2:
                del table[name]
            case 3:
                kept = row % (len(cells) + 1)
                for other in table:
                    table[other] = table[other][:kept] if value % 2 else table[other][kept:]
            case 4:
                for other in table:
                    table[other] = table[other] + table[other][: row % (len(cells) + 1)]
    return told, tables


def written(table: dict[str, list]) -> tuple[bytes, int]:
    """A parquet file of the columns, those of several types as text, and its rows."""
    arrays = {}
    for name, cells in table.items():
        try:
            arrays[name] = pa.array(cells)
            # An object without keys is not a column.
            pq.write_table(pa.table({name: arrays[name]}), pa.BufferOutputStream())
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            arrays[name] = pa.array(
                [None if cell is None else ascii(cell) for cell in cells], pa.string()
            )
    stream = pa.BufferOutputStream()
    built = pa.table(arrays)
    pq.write_table(built, stream)
    return stream.getvalue().to_pybytes(), len(built)


def answered(data: bytes, folder: Path) -> bool | None:
    """Whether the folder is taken and the question answered; None where the bytes say nothing."""
    if len(data) < 2:
        return None
    part, question, rest = (
        PARTS[data[0] % len(PARTS)],
        QUESTIONS[data[1] % len(QUESTIONS)],
        data[2:],
    )
    files, told, rows = dict(whole()), json.loads(whole()["provenance.json"]), {}
    if part == "edits":
        told, tables = edited(rest)
        for name, table in tables.items():
            if table != columns(name):
                files[name], rows[name] = written(table)
    elif part == "provenance.json":
        try:
            told = json.loads(rest)
        except (ValueError, RecursionError):
            told = ...
        files[part] = rest
    else:
        files[part] = rest
        try:
            rows[part] = pq.read_metadata(pa.BufferReader(rest)).num_rows
        except (pa.ArrowException, OSError, ValueError):
            rows[part] = 1
    if isinstance(told, dict) and isinstance(told.get("files"), dict):
        known = json.loads(whole()["provenance.json"])["files"]
        for name in TABLES:
            known[name] |= {
                "bytes": len(files[name]),
                "sha256": hashlib.sha256(files[name]).hexdigest(),
            }
            known[name]["rows"] = rows.get(name, known[name]["rows"])
        told["files"] = (
            known
            if part != "edits"
            else known | {k: v for k, v in told["files"].items() if k not in known}
        )
    if told is not ...:
        files["provenance.json"] = json.dumps(told).encode()
    place = folder / "results"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return taken(lambda: question(Results.open(place), place))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="apscope-fuzz-") as temporary:
        whole()
        atheris.Setup(sys.argv, lambda data: answered(data, Path(temporary)) and None)
        atheris.Fuzz()
