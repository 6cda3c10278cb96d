"""Statistics logged by TransformerEngine's debug features, as a table, beside those of a trace."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._folders.reading import open_regular
from .._traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

#: TransformerEngine's names of a layer's tensors, and the same kinds of records in a trace.
TENSORS = {
    "activation": "layer_input",
    "gradient": "activation_gradient",
    "weight": "weights",
    "output": None,
    "wgrad": "gradient",
    "dgrad": None,
}

_FILE = re.compile(r"nvdlfw_inspect\w*_globalrank-(?P<rank>\d+)\.log")
_FOLDER = "nvdlfw_inspect_statistics_logs"
_LINE = re.compile(
    r"(?:.* - )?[A-Z]+ - (?P<name>\S+)\s+iteration=(?P<step>\d+)\s+value=(?P<value>\S+)\s*"
)
_NAME = re.compile(rf"(?P<layer>.+)_(?P<tensor>{'|'.join(TENSORS)})_(?P<statistic>.+)")


def _magnitudes(x: np.ndarray) -> np.ndarray:
    nonzero = np.abs(x[x != 0])
    return nonzero if nonzero.size else np.ones(1)


#: The statistics of `LogTensorStats` that depend only on the tensor, computed in fp64.
STATISTICS: dict[str, Callable[[np.ndarray], float]] = {
    "min": np.min,
    "max": np.max,
    "mean": lambda x: math.fsum(x) / x.size,
    "std": lambda x: float(np.std(x, ddof=1)) if x.size > 1 else math.nan,
    "l1_norm": lambda x: math.fsum(np.abs(x)),
    "l2_norm": lambda x: math.sqrt(math.fsum(x * x)),
    "cur_amax": lambda x: np.max(np.abs(x)),
    "dynamic_range": lambda x: (
        math.log2(np.max(_magnitudes(x))) - math.log2(np.min(_magnitudes(x)))
    ),
}


def is_te_log(name: str) -> bool:
    """Whether a file has the name of a TransformerEngine statistics log."""
    return _FILE.fullmatch(name.rpartition("/")[2]) is not None


def te_statistics(log: str | os.PathLike) -> pd.DataFrame:
    """Statistics that TransformerEngine's ``LogTensorStats`` and ``LogFp8TensorStats`` logged.

    They come through Nvidia-DL-Framework-Inspect, with four decimals: numbers below 0.00005 are
    logged as 0.

    Parameters
    ----------
    log : path-like
        One ``nvdlfw_inspect_globalrank-N.log``, or a folder (the run's ``log_dir``) with such files
        below a folder ``nvdlfw_inspect_statistics_logs``.

    Returns
    -------
    pandas.DataFrame
        One row per number, by step, then in the order of the log: ``rank``, ``step`` (its
        iteration), ``layer``, ``tensor`` (activation, gradient, weight, output, wgrad or dgrad),
        ``statistic`` (min, max, mean, std, l1_norm, l2_norm, cur_amax, dynamic_range,
        mxfp8_underflows%, ...) and ``value``. A number whose name contains no tensor has that name
        as its ``layer``. If a log has a number twice, because of a restarted run, the last one is
        used.

    Raises
    ------
    ValueError
        There is no such file, or one has a line that is not a statistic.
    """
    import pandas as pd

    rows: dict[tuple, float] = {}
    for path, rank in _files(Path(log)):
        for number, line in enumerate(_lines(path), 1):
            match = _LINE.fullmatch(line)
            try:
                value = float(match["value"]) if match else None
            except ValueError:
                value = None
            if match is None or value is None:
                if not line.strip() or not line.endswith("\n"):
                    continue  # an incomplete line of a killed run
                raise ValueError(
                    f"{path}: line {number} is not a statistic of TransformerEngine: "
                    f"{line.strip()[:80]!r}"
                )
            name = _NAME.fullmatch(match["name"])
            words = (
                (name["layer"], name["tensor"], name["statistic"])
                if name
                else (match["name"], "", "")
            )
            rows.pop(key := (rank, int(match["step"]), *words), None)
            rows[key] = value
    if not rows:
        raise ValueError(f"{log} has no statistics of TransformerEngine")
    table = pd.DataFrame(
        [(*key, value) for key, value in rows.items()],
        columns=["rank", "step", "layer", "tensor", "statistic", "value"],
    )
    table["place"] = table.groupby(
        ["layer", "tensor", "statistic"], sort=False
    ).ngroup()  # groups the ranks' numbers of one kind
    return table.sort_values(["step", "place", "rank"], ignore_index=True).drop(columns="place")


def _lines(path: Path) -> Iterator[str]:
    with io.TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace") as stream:
        yield from stream


def _files(log: Path) -> list[tuple[Path, int]]:
    paths = (
        sorted(p for p in log.rglob("*.log") if _FOLDER in (p.parent.name, log.name))
        if log.is_dir()
        else [log]
    )
    logs = [
        (path, match) for path in paths if path.is_file() and (match := _FILE.fullmatch(path.name))
    ]
    if not logs:
        raise ValueError(
            f"{log} neither is nor contains a {_FOLDER}/nvdlfw_inspect_globalrank-N.log, "
            "TransformerEngine's log of statistics"
        )
    return [(path, int(match["rank"])) for path, match in logs]


def beside_te_statistics(trace: Trace, log: str | os.PathLike) -> pd.DataFrame:
    """`te_statistics`, with the number of the same tensor, step and rank in a trace beside each.

    A layer's wgrad is the gradient of its weight, its activation, gradient and weight the trace's
    records ``layer_input``, ``activation_gradient`` and ``weights``, if it has them. Names are
    compared with ``/ . : *`` and blanks replaced by ``_``, as in TransformerEngine's tensor dumps:
    ``LAYER_wgrad``, or ``LAYER.weight``, possibly below a module. Steps are matched by number.

    Parameters
    ----------
    trace : Trace
    log : path-like
        As for `te_statistics`.

    Returns
    -------
    pandas.DataFrame
        Its columns and ``trace_tensor``, ``own`` (for that rank's values) and ``all_ranks`` (for
        all ranks' values, which TransformerEngine logs if it reduces statistics over a group):
        exact, except for one rounding of each sum and each operation after it. NaN if the trace has
        no such tensor or step, and for statistics that need more than the tensor, such as
        ``mxfp8_underflows%``.

    Raises
    ------
    ValueError
        As `te_statistics`; or no number of the log matches the trace.
    """
    table = te_statistics(log)
    columns: dict[str, list] = {
        "trace_tensor": [""] * len(table),
        "own": [math.nan] * len(table),
        "all_ranks": [math.nan] * len(table),
    }
    for (step, layer, tensor), rows in table.groupby(["step", "layer", "tensor"], sort=False):
        kind = TENSORS.get(tensor)
        name = (
            _named_alike(layer, tensor, trace.names(step, kind))
            if kind and step in trace.steps
            else None
        )
        if kind is None or name is None:
            continue
        ranks = range(1 if kind == "weights" else trace.workers)
        values = [trace.read(step, name, rank, kind).astype(np.float64).ravel() for rank in ranks]
        everything = np.concatenate(values)
        for i, rank, statistic in zip(rows.index, rows["rank"], rows["statistic"]):
            columns["trace_tensor"][i] = name
            if statistic in STATISTICS:
                here = 0 if kind == "weights" else rank
                columns["own"][i] = (
                    _of(STATISTICS[statistic], values[here]) if here in ranks else math.nan
                )
                columns["all_ranks"][i] = _of(STATISTICS[statistic], everything)
    if not any(columns["trace_tensor"]):
        raise ValueError(
            f"no number in {log} matches a tensor and step of {trace.source}: it has layers such "
            f"as {table['layer'][0]!r} at step {table['step'][0]}, the trace tensors such as "
            f"{trace.tensors[0]!r} at step {trace.steps[0] if trace.steps else 'none'}"
        )
    return table.assign(**columns)


def _of(statistic: Callable[[np.ndarray], float], values: np.ndarray) -> float:
    return float(statistic(values)) if values.size and np.isfinite(values).all() else math.nan


def _named_alike(layer: str, tensor: str, names: list[str]) -> str | None:
    """The one name that equals the layer's or its parameter's, except for a prefix of either."""
    plain = {name: re.sub(r'[/\\:*?"<>| .]', "_", name) for name in names}
    ends = [
        re.sub(r'[/\\:*?"<>| .]', "_", f"{layer}{end}")
        for end in (f"_{tensor}", "_weight" if tensor in ("wgrad", "weight") else "")
    ]
    alike = [name for name, text in plain.items() if text in ends]
    if not alike:
        alike = [
            name
            for name, text in plain.items()
            if any(text.endswith(f"_{end}") or end.endswith(f"_{text}") for end in ends)
        ]
    return alike[0] if len(alike) == 1 else None
