"""One self-contained HTML file that says which scheme lost least, where and why."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..results import Results
from . import glossary, words
from .measure import measure
from .table import table

__all__ = ["report", "check_destination"]

_HERE = Path(__file__).parent


def report(results: Any, out_path: str | os.PathLike, *, progress: bool = False) -> Path:
    """Writes the report of a replay: one HTML file, and its numbers beside it as JSON.

    Parameters
    ----------
    results : Results or path of a RESULTS folder
    out_path : path
        The HTML file; ``report.json`` for ``report.html`` and so on. Existing files are replaced.
        The folder must exist.
    progress : bool
        Shows a progress bar, a tick a figure.

    Returns
    -------
    pathlib.Path
        The HTML file.

    Raises
    ------
    ValueError
        The results are empty, or the folder is missing or no folder.
    OSError
        A file cannot be read or written. Nothing is left half-written.
    """
    out_path = check_destination(out_path)
    if isinstance(results, (str, os.PathLike)):
        results = Results.open(results)
    if not len(results.frame):
        raise ValueError("the results hold no row, so there is nothing to report")
    page, numbers = _render(results, progress)
    _write({out_path: page, out_path.with_suffix(".json"): json.dumps(_plain(numbers), indent=1, allow_nan=False) + "\n"})
    return out_path


def check_destination(out_path: str | os.PathLike) -> Path:
    """The path, if a report can be written there.

    Raises
    ------
    ValueError
        Its folder is missing or no folder, or it would take the place of a folder or of its own JSON.
    """
    out_path = Path(out_path)
    if not out_path.parent.is_dir():
        raise ValueError(f"{out_path}: its folder {out_path.parent} does not exist or is no folder; create it first")
    if out_path.is_dir() or out_path.suffix not in (".html", ".htm"):
        raise ValueError(f"{out_path}: the report is an HTML file; give a name that ends in .html")
    return out_path


def _render(results: Any, progress: bool) -> tuple[str, dict[str, Any]]:
    # Here, so that `import apscope` stays light.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from .figures import figures

    frame, provenance = results.frame, results.provenance
    frames = {trace: frame[frame["trace"] == trace] for trace in dict.fromkeys(frame["trace"])}
    measures = [measure(rows) for rows in frames.values()]
    about = {t["name"]: t for t in provenance.get("traces", ())}
    with _bar(progress) as drawn:
        sections = [
            {
                "trace": m["trace"], "id": f"trace-{i}", "about": about.get(m["trace"], {}),
                "which": words.which(m), "where": words.where(m), "why": words.why(frames[m["trace"]], m),
                "groups": figures(results, m, f"figure-{i}", drawn),
            }
            for i, m in enumerate(measures, 1)
        ]
    caveats, across = words.caveats(frame, measures), words.across(measures)
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _code
    environment.filters["figure"] = words.figure
    environment.filters["count_of"] = words.count_of
    page = environment.get_template("template.html").render(
        sections=sections, across=across, caveats=caveats, table=table(measures), provenance=provenance,
        columns=glossary.COLUMNS, words=glossary.WORDS,
        style=Markup((_HERE / "style.css").read_text()), script=Markup((_HERE / "sort.js").read_text()),
    )
    summaries = [{k: s[k] for k in ("trace", "which", "where", "why")} for s in sections]
    return page, {"provenance": provenance, "across": across, "summary": summaries, "caveats": caveats, "measures": measures}


@contextmanager
def _bar(show: bool) -> Iterator[Callable[[], Any]]:
    """What to call after every figure."""
    if not show:
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(desc="figures", unit="figure", leave=False) as bar:
        yield bar.update


def _code(text: str) -> Any:
    """Text with `names` in backquotes set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes the word, as in the CSV; NaN becomes null."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _write(texts: Mapping[Path, str]) -> None:
    """Writes each file beside its place; renames them only when all are complete."""
    written: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            written[path] = beside
            with open(beside, "x", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        for path, beside in written.items():
            os.replace(beside, path)
    except OSError as error:
        raise OSError(f"the report {next(iter(texts))} cannot be written: {error.strerror or error}") from None
    finally:
        for beside in written.values():
            beside.unlink(missing_ok=True)
