"""The page's plotting library: Observable Plot with d3, from the wheel of pyobsplot."""

from __future__ import annotations

import gzip
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: The wheel's widget, an ECMAScript module that assigns `Plot` and `d3` to `window`.
_SCRIPT = "pyobsplot/static/static-widget.js"
#: The lines that do so; the page needs only these two.
_HANDED = ("window.d3 = ", "window.Plot = ")


def plot_script() -> bytes:
    """The script, gzip-compressed.

    The file is read, never imported: pyobsplot's own Python needs packages that a report does not.

    Raises
    ------
    ImportError
        pyobsplot is not installed, or its script no longer provides `Plot` and `d3`.
    """
    try:
        path = Path(str(distribution("pyobsplot").locate_file(_SCRIPT)))
        text = path.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError):
        raise ImportError(
            "the report draws with Observable Plot from the package pyobsplot, which is not "
            "installed; pip install pyobsplot==0.5.4"
        ) from None
    if not all(line in text for line in _HANDED):
        raise ImportError(f"{path} does not provide Plot and d3; the report needs pyobsplot 0.5.4")
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)
