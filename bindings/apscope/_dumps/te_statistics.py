"""The statistics that TransformerEngine's debug features log, as a table, and a trace's own numbers beside them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["beside_te_statistics", "is_te_log", "te_statistics"]

#: What TransformerEngine calls the tensors of a layer, and the kind of a trace's record that is the same.
TENSORS = {"activation": "layer_input", "gradient": "activation_gradient", "weight": "weights", "output": None, "wgrad": "gradient", "dgrad": None}

_FILE = re.compile(r"nvdlfw_inspect\w*_globalrank-(?P<rank>\d+)\.log")
_FOLDER = "nvdlfw_inspect_statistics_logs"
_LINE = re.compile(r"(?:.* - )?[A-Z]+ - (?P<name>\S+)\s+iteration=(?P<step>\d+)\s+value=(?P<value>\S+)\s*")
_NAME = re.compile(rf"(?P<layer>.+)_(?P<tensor>{'|'.join(TENSORS)})_(?P<statistic>.+)")


def _magnitudes(x: np.ndarray) -> np.ndarray:
    found = np.abs(x[x != 0])
    return found if found.size else np.ones(1)


#: The statistics of `LogTensorStats` that a tensor alone determines, of its values in fp64.
STATISTICS: dict[str, Callable[[np.ndarray], float]] = {
    "min": np.min,
    "max": np.max,
    "mean": lambda x: math.fsum(x) / x.size,
    "std": lambda x: float(np.std(x, ddof=1)) if x.size > 1 else math.nan,
    "l1_norm": lambda x: math.fsum(np.abs(x)),
    "l2_norm": lambda x: math.sqrt(math.fsum(x * x)),
    "cur_amax": lambda x: np.max(np.abs(x)),
    "dynamic_range": lambda x: math.log2(np.max(_magnitudes(x))) - math.log2(np.min(_magnitudes(x))),
}


def is_te_log(name: str) -> bool:
    """Whether a file is called as those are that TransformerEngine's statistics are logged to."""
    return _FILE.fullmatch(name.rpartition("/")[2]) is not None


def te_statistics(log: str | os.PathLike) -> pd.DataFrame:
    """The statistics that TransformerEngine's ``LogTensorStats``, ``LogFp8TensorStats`` and the like logged.

    They come through Nvidia-DL-Framework-Inspect, with four decimals: what is smaller than 0.00005 stands there as 0.

    Parameters
    ----------
    log : path-like
        One ``nvdlfw_inspect_globalrank-N.log``, or a folder that has such files below a folder
        ``nvdlfw_inspect_statistics_logs`` (what ``log_dir`` was).

    Returns
    -------
    pandas.DataFrame
        One row a number, by step, and as the log has them within one: ``rank``, ``step`` (its iteration), ``layer``, ``tensor`` (activation, gradient, weight, output, wgrad or dgrad),
        ``statistic`` (min, max, mean, std, l1_norm, l2_norm, cur_amax, dynamic_range, mxfp8_underflows%, ...) and ``value``. A number
        whose name has no tensor in it keeps the name as its ``layer``. Where a log has a number twice, which a restarted run leaves, the
        last one stands.

    Raises
    ------
    ValueError
        There is no such file, or one has a line that is no statistic.
    """
    import pandas as pd

    rows: dict[tuple, float] = {}
    for path, rank in _files(Path(log)):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            found = _LINE.fullmatch(line)
            try:
                value = float(found["value"]) if found else None
            except ValueError:
                value = None
            if found is None or value is None:
                if not line.strip() or (number == len(lines) and not line.endswith("\n")):
                    continue  # what a killed run was writing
                raise ValueError(f"{path}: line {number} is no statistic of TransformerEngine: {line.strip()[:80]!r}")
            name = _NAME.fullmatch(found["name"])
            words = (name["layer"], name["tensor"], name["statistic"]) if name else (found["name"], "", "")
            rows.pop(key := (rank, int(found["step"]), *words), None)
            rows[key] = value
    if not rows:
        raise ValueError(f"{log} holds no statistics of TransformerEngine")
    table = pd.DataFrame([(*key, value) for key, value in rows.items()], columns=["rank", "step", "layer", "tensor", "statistic", "value"])
    table["place"] = table.groupby(["layer", "tensor", "statistic"], sort=False).ngroup()  # the ranks' numbers of one kind below each other
    return table.sort_values(["step", "place", "rank"], ignore_index=True).drop(columns="place")


def _files(log: Path) -> list[tuple[Path, int]]:
    paths = sorted(p for p in log.rglob("*.log") if _FOLDER in (p.parent.name, log.name)) if log.is_dir() else [log]
    found = [(path, match) for path in paths if path.is_file() and (match := _FILE.fullmatch(path.name))]
    if not found:
        raise ValueError(f"{log} is or holds no {_FOLDER}/nvdlfw_inspect_globalrank-N.log, which is where TransformerEngine logs statistics")
    return [(path, int(match["rank"])) for path, match in found]


def beside_te_statistics(trace: Trace, log: str | os.PathLike) -> pd.DataFrame:
    """`te_statistics`, and beside every number the one of the same tensor, step and rank in a trace.

    A layer's wgrad is the gradient of its weight, its activation, gradient and weight the trace's records ``layer_input``,
    ``activation_gradient`` and ``weights``, where it has them. Names agree where they do with ``/ . : *`` and blanks as ``_``, as
    TransformerEngine's tensor dumps write them: ``LAYER_wgrad``, or ``LAYER.weight``, which may stand below a module. Steps agree by their numbers.

    Parameters
    ----------
    trace : Trace
    log : path-like
        As `te_statistics` takes it.

    Returns
    -------
    pandas.DataFrame
        Its columns and ``trace_tensor``, ``own`` (of that rank's values) and ``all_ranks`` (of all ranks', which TransformerEngine logs where
        it reduces statistics over a group): of the values exactly, but for one rounding of each sum and each operation after it. NaN where the
        trace has no such tensor or step, and for statistics that need more than the tensor, such as ``mxfp8_underflows%``.

    Raises
    ------
    ValueError
        As `te_statistics`; or no number of the log has one of the trace beside it.
    """
    table = te_statistics(log)
    columns: dict[str, list] = {"trace_tensor": [""] * len(table), "own": [math.nan] * len(table), "all_ranks": [math.nan] * len(table)}
    for (step, layer, tensor), rows in table.groupby(["step", "layer", "tensor"], sort=False):
        kind = TENSORS.get(tensor)
        name = _named_alike(layer, tensor, trace.names(step, kind)) if kind and step in trace.steps else None
        if kind is None or name is None:
            continue
        ranks = range(1 if kind == "weights" else trace.workers)
        values = [trace.read(step, name, rank, kind).astype(np.float64).ravel() for rank in ranks]
        everything = np.concatenate(values)
        for i, rank, statistic in zip(rows.index, rows["rank"], rows["statistic"]):
            columns["trace_tensor"][i] = name
            if statistic in STATISTICS:
                here = 0 if kind == "weights" else rank
                columns["own"][i] = _of(STATISTICS[statistic], values[here]) if here in ranks else math.nan
                columns["all_ranks"][i] = _of(STATISTICS[statistic], everything)
    if not any(columns["trace_tensor"]):
        raise ValueError(
            f"no number of {log} is of a tensor and step of {trace.source}: it has layers such as {table['layer'][0]!r} at step {table['step'][0]}, "
            f"the trace tensors such as {trace.tensors[0]!r} at step {trace.steps[0] if trace.steps else 'none'}"
        )
    return table.assign(**columns)


def _of(statistic: Callable[[np.ndarray], float], values: np.ndarray) -> float:
    return float(statistic(values)) if values.size and np.isfinite(values).all() else math.nan


def _named_alike(layer: str, tensor: str, names: list[str]) -> str | None:
    """The one name that is the layer's, or its parameter's, apart from what stands in front of one of them."""
    plain = {name: re.sub(r'[/\\:*?"<>| .]', "_", name) for name in names}
    ends = [re.sub(r'[/\\:*?"<>| .]', "_", f"{layer}{end}") for end in (f"_{tensor}", "_weight" if tensor in ("wgrad", "weight") else "")]
    alike = [name for name, text in plain.items() if text in ends]
    if not alike:
        alike = [name for name, text in plain.items() if any(text.endswith(f"_{end}") or end.endswith(f"_{text}") for end in ends)]
    return alike[0] if len(alike) == 1 else None
