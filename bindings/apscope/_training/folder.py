"""The folder of an experiment: its tables, written at once and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pandas as pd

from .._folders.durable import digest_of
from .._folders.json import read_json
from .._folders.reading import open_regular, refuse_special
from .._folders.writing import Writing, refuse_dangling
from .._schemes.scheme import as_scheme
from .._schemes.titles import format_of
from .._traces.opening import open_trace
from .._traces.problems import problems as problems_of_trace
from . import constant
from .experiment import Experiment
from .statistics import StepSums, of_trace, pool
from .verdicts import KEY, verdicts

if TYPE_CHECKING:
    from ..train._run import Run

MARK = "training.json"
AGAIN = "run apscope train again"
_OF_A_RUN = ("loss", "validation", "skipped", "errors", "diverged")
_FILES = ("results.parquet", "results.csv", "verdicts.csv", "statistics.csv", MARK)


def check_folder(out: str | os.PathLike[str]) -> Path:
    """The path of a folder that an experiment can be written to: new, empty, or an experiment's.

    Raises
    ------
    ValueError
        It is a file, or a folder with other content.
    """
    if not os.fspath(out):
        raise ValueError("the folder's name is empty; give -o a folder")
    out = Path(out)
    refuse_dangling(out)
    if out.exists() and not out.is_dir():
        refuse_special(out, "a folder for the experiment")
        raise ValueError(f"{out} is a file; give a folder for the experiment")
    if out.is_dir() and not (out / "experiment.json").exists():
        others = sorted(p.name for p in out.iterdir() if not p.name.startswith("."))
        if others:
            raise ValueError(
                f"{out} contains {others[0]} and is not the folder of "
                "an experiment; give another folder"
            )
    return out


def is_experiment(folder: Path) -> bool:
    """Whether it is an experiment's folder, finished or not."""
    return (folder / "experiment.json").is_file()


def problems(folder: Path) -> Iterator[str]:
    """A sentence for every table that `write` did not write, every damaged run and trace."""
    if not (folder / MARK).is_file():
        yield f"{folder} is not finished; run apscope train again"
        return
    try:
        files = read_json(folder / MARK)["files"]
        for name, about in files.items():
            digest = digest_of(folder / name)
            for key in ("bytes", "sha256"):
                if digest[key] != about[key]:
                    yield f"{folder / name} is damaged: its {key} is {digest[key]}, but {MARK} says {about[key]}; {AGAIN}"
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        yield f"{folder} has a damaged or missing file: {error}"
    for path in sorted((folder / "runs").glob("*.json")):
        try:
            read_run(path)
        except ValueError as error:
            yield str(error)
    for trace in sorted(path for path in (folder / "traces").glob("[!.]*") if path.is_dir()):
        yield from problems_of_trace(trace)


def read_run(path: Path) -> dict[str, Any]:
    """The results of a run's training.

    Raises
    ------
    ValueError
        The file is damaged.
    """
    try:
        result = read_json(path)
        if not isinstance(result, dict) or not set(_OF_A_RUN) <= set(result):
            raise ValueError("it is not a run")
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); remove it, and run apscope train again"
        ) from None
    return result


def rows(runs: Sequence[tuple[Run, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row per step of every run.

    ``loss`` is that of the step's batch before the step, in nats; ``validation_loss`` and
    ``accuracy`` are in the rows of the steps after which they were measured; ``skipped``: the
    scheme dropped the step.
    """
    parts = []
    for run, result in runs:
        steps = range(len(result["loss"]))
        validation = {int(done) - 1: pair for done, pair in result["validation"].items()}
        skipped = set(result["skipped"])
        parts.append(pd.DataFrame({
            "task": run.task.title, "model": run.task.model, "scheme": run.spec,
            "topology": run.topology, "format": format_of(run.spec),
            "seed": run.seed, "step": steps, "loss": result["loss"],
            "validation_loss": [validation.get(s, (None, None))[0] for s in steps],
            "accuracy": [validation.get(s, (None, None))[1] for s in steps],
            "skipped": [s in skipped for s in steps],
        }).astype({"validation_loss": float, "accuracy": float}))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def write(
    writing: Writing,
    experiment: Experiment,
    runs: Sequence[tuple[Run, Mapping[str, Any]]],
    traces: Mapping[str, Path],
    about: Mapping[str, Any],
) -> None:
    """Writes the tables into the folder: all or none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .._results.csv_table import write_csv

    table = rows(runs)
    costs = pd.concat([_costs(label, trace, experiment) for label, trace in traces.items()])
    table = table.merge(costs[[*KEY, "volume"]], how="left", on=KEY)
    judged = verdicts(table, experiment).merge(costs, how="left", on=KEY)
    counted = pd.concat([_of_traces(experiment, traces), _of_runs(runs)], ignore_index=True)
    for name, frame in (("results", table), ("verdicts", judged), ("statistics", counted)):
        arrow = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        if name == "results":
            pq.write_table(arrow, writing.new / "results.parquet", compression="zstd")
        with open(writing.new / f"{name}.csv", "wb") as stream:
            write_csv(arrow, stream)
    files = {name: digest_of(writing.new / name) for name in _FILES if name != MARK}
    mark = {"experiment": experiment.as_json(), **about, "files": files}
    (writing.new / MARK).write_text(json.dumps(mark, indent=1) + "\n", encoding="utf-8")
    writing.put_files(_FILES, MARK)


def _costs(label: str, trace: Path, experiment: Experiment) -> pd.DataFrame:
    """Volume of every exchange by the cost model, and figures from a replay of fp32's trace."""
    from .._replay.replay import replay

    exchanges = [*experiment.baselines, *experiment.exchanges]
    task, model = label.split(" ", 1)
    tables = []
    for topology in dict.fromkeys(one.topology for one in exchanges):
        specs = [one.scheme for one in exchanges if one.topology == topology]
        results = replay(trace, specs, topology=[topology], progress=False)
        summary = results.summary()
        reduced = summary[summary["topology"] != "exact"]
        # A scheme that cannot have the topology has its own reduction.
        first = (reduced["topology"] != topology).sort_values(kind="stable").index
        reduced = reduced.loc[first].drop_duplicates("scheme")
        tables.append(
            pd.DataFrame(
                {
                    "task": task,
                    "model": model,
                    "scheme": reduced["scheme"],
                    "topology": topology,
                    "reduction": reduced["topology"],
                    "volume": reduced["volume"],
                    "speedup": reduced["speedup"],
                    "underflow": reduced["underflow_wire"],
                    "error_over_noise": reduced["error_over_noise"],
                    "step_nmse": reduced["step_nmse"],
                    "layer_cosine": reduced["layer_cosine"],
                }
            )
        )
    return pd.concat(tables)


def _of_runs(runs: Sequence[tuple[Run, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row per run: `STATISTICS` of its own recorded steps."""
    return pd.DataFrame(
        [
            {
                "task": run.task.title,
                "model": run.task.model,
                "scheme": run.spec,
                "topology": run.topology,
                "source": "run",
                "seed": run.seed,
            }
            | pool([StepSums(**sums) for sums in result["errors"].values()])
            for run, result in runs
        ]
    )


def _of_traces(experiment: Experiment, traces: Mapping[str, Path]) -> pd.DataFrame:
    """One row per task and exchange: `STATISTICS` of the fp32 run's recorded steps."""
    rows = []
    for label, place in traces.items():
        task, model = label.split(" ", 1)
        trace = open_trace(place)
        for spec, topology in (*experiment.baselines, *experiment.exchanges):
            row: dict[str, Any] = {
                "task": task, "model": model, "scheme": spec, "topology": topology,
                "source": "trace",
            }  # fmt: skip
            constant_spec = constant.of_trace(spec, place, topology)
            if not set(as_scheme(constant_spec).needs) - {"loss", "learning_rate"}:
                row |= of_trace(trace, constant_spec, topology)
            rows.append(row)
    return pd.DataFrame(rows)


def _read(path: Path, read: Callable[[BinaryIO], pd.DataFrame]) -> pd.DataFrame:
    with open_regular(path) as stream:
        return read(stream)


def read(folder: str | os.PathLike[str]) -> tuple[Experiment, pd.DataFrame, dict[str, Any]]:
    """The experiment, its rows with their volumes, and the rest.

    A folder whose schemes all had one topology, and no column of it, gets the column. The rest has the tables ``verdicts`` and ``statistics``: of every scheme's exchange of the fp32
    run's trace (``source`` is ``trace``), and of every run's own recorded steps (``run``).

    Raises
    ------
    ValueError
        The experiment is not finished, or a file is damaged.
    """
    folder = Path(folder)
    if not (folder / MARK).is_file():
        raise ValueError(f"the experiment in {folder} is not finished; run apscope train again")
    try:
        mark = read_json(folder / MARK)
        experiment = Experiment.of_json(mark.pop("experiment"))
        table = _read(folder / "results.parquet", pd.read_parquet)
        judged = _read(folder / "verdicts.csv", pd.read_csv)
        judged["note"] = judged["note"].fillna("")
        counted = _read(folder / "statistics.csv", pd.read_csv)
        for frame in (table, judged, counted):
            if "topology" not in frame:
                frame.insert(frame.columns.get_loc("scheme") + 1, "topology", experiment.topology)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{folder} has a damaged file: {error}") from None
    return experiment, table, {**mark, "verdicts": judged, "statistics": counted}
