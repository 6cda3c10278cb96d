"""Common parts of all plots: sizes, colours, labels beside lines, the axis of recorded steps."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path

from .._arrays.checks import of_type
from .._charts.colours import COLOURS, SYMBOLS
from .._charts.spread import spread
from .._docstrings import Function, with_sections
from .._results.families import FAMILIES
from .._results.summary import family_of
from ._names import font_families
from ._numbers import plain_numbers

#: Inches; 4.6 in are 442 CSS pixels, so a phone shows the figure at four fifths of its size.
WIDTH, HEIGHT = 4.6, 3.0

#: A smaller NMSE is that of fp32 sums; it is an arrow at the axis' end, to leave room for the
#: others.
FLOOR = 1e-8

STYLE = {
    "text.parse_math": False,  # names are not formulas
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "axes.formatter.use_mathtext": True,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",
    "svg.hashsalt": "apscope",
    "image.cmap": "viridis",
}

#: Observable Plot's names of marks, by which charts call them -> matplotlib's.
MARKER_OF = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "times": "x", "plus": "P",
    "cross": "X", "star": "*",
    "wye": "v", "asterisk": "h", "bar": "s",
}  # fmt: skip
#: Of a legend's entries that are lines.
LINE_OF = {"line": "-", "dashes": "--"}
#: Arrows from their tips, for what lies beyond an edge, and their size in points.
_ARROW = np.array(
    [(0, 0), (0.4, 0.5), (0.1, 0.5), (0.1, 1), (-0.1, 1), (-0.1, 0.5), (-0.4, 0.5), (0, 0)]
)
ARROWS = {
    "below": Path(_ARROW), "above": Path(_ARROW * [1, -1]), "left": Path(_ARROW[:, ::-1]),
}  # fmt: skip
ARROW_SIZE = 18.0
#: The markers of `COLOURS`, in their order.
MARKERS = (*(MARKER_OF[symbol] for symbol in SYMBOLS), "<", ">")
_LINES = ("-", "--", "-.", ":")
#: Shades of the family's colour for its first, second, ... scheme: lightness subtracted or added.
#: Further schemes have other markers.
_SHADES = (0.0, -0.42, 0.38, -0.68)


class SchemeLook(NamedTuple):
    """The appearance of a scheme."""

    colour: str
    marker: str
    line: str


def looks(specs: Sequence[str]) -> dict[str, SchemeLook]:
    """The colour and marker of the scheme's family, with the scheme's own shade and dashes."""
    families: dict[str, list[str]] = {}
    for spec in specs:
        families.setdefault(family_of(spec), []).append(spec)
    by_spec = {}
    for family, members in families.items():
        colour, symbol = FAMILIES[family]
        first = MARKER_OF[symbol]
        for i, spec in enumerate(members):
            shade = _SHADES[i % len(_SHADES)]
            ground = np.ones(3) if shade > 0 else np.zeros(3)
            mixed = (1 - abs(shade)) * np.array(to_rgb(colour)) + abs(shade) * ground
            markers = [first, *(m for m in MARKERS if m != first)]
            by_spec[spec] = SchemeLook(
                to_hex(mixed), markers[i // len(_SHADES) % len(markers)], _LINES[i % len(_LINES)]
            )
    return {spec: by_spec[spec] for spec in specs}


#: Common parameters of plots: `styled` adds them to the docstrings that lack them.
_ARGUMENTS = {
    "results": "Results or its frame",
    "scheme": "Scheme or str\n    In any spelling.",
    "schemes": "sequence of Scheme or str, optional\n"
               "    In any spelling; by default all, in the order of the table.",
    "format": "FloatFormat, str or dtype, optional\n"
              "    The format whose ranges are shaded; by default that of `scheme`.",
    "layer": "str, optional\n    Only this one.",
    "trace": "str, optional\n    Required if the results have several.",
    "ax": "Axes, optional\n    The Axes to draw into; by default new ones.",
}  # fmt: skip
_RESULT = """
Returns
-------
Axes

Raises
------
TypeError, ValueError
    Missing data; the sentence says which."""


def _documented(plot: Function) -> Function:
    """Adds the missing sections on parameters, results and errors to the docstring."""
    names = [name for name in inspect.signature(plot).parameters if name in _ARGUMENTS]
    entries = [f"{name} : {_ARGUMENTS[name]}" for name in names]
    return with_sections("\n".join(["Parameters", "----------", *entries, _RESULT]))(plot)


def styled(plot: Callable[..., Axes]) -> Callable[..., Axes]:
    """Draws with STYLE and fonts for the names, and restores the caller's matplotlib settings."""

    @functools.wraps(_documented(plot))
    def wrapper(*args: Any, **kwargs: Any) -> Axes:
        with matplotlib.rc_context(STYLE | {"font.family": list(font_families())}):
            return plot(*args, **kwargs)

    return wrapper


class _Shown(Figure):
    """A figure that a notebook shows as a picture, also if pyplot has made none before it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


def axes(ax: Axes | None, width: float = WIDTH, height: float = HEIGHT) -> Axes:
    """`ax`, or the Axes of a new figure outside of pyplot."""
    if ax is not None:
        of_type("ax", ax, Axes, "Matplotlib's Axes, or None")
        return ax
    figure = _Shown(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    plain_numbers(ax)
    return ax


def room_for(texts: Sequence[str], min_inches: float) -> float:
    """Height in inches that these labels need below each other."""
    axes_share = 0.77  # share of the height, before the layout enlarges it
    return max(
        min_inches, sum(text.count("\n") + 1 for text in texts) * 8.0 * 1.3 / 72 / axes_share
    )


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def ink(line_colour: str) -> str:
    """A colour for text on white: as dark as it has to be, 3 to 1 or more."""
    rgb = np.array(to_rgb(line_colour))
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    while light @ (0.2126, 0.7152, 0.0722) > 0.25:
        rgb, light = 0.95 * rgb, 0.89 * light
    return to_hex(rgb)


def step_axis(ax: Axes, steps: Sequence[int], max_labels: int = 7) -> None:
    """Labels positions 0, 1, ... with step numbers: recorded steps are equally spaced.

    Training is often recorded densely early and sparsely late; a linear axis would hide the early
    part.
    """
    n = len(steps)
    chosen = sorted({round(i) for i in np.linspace(0, n - 1, min(max_labels, n))})
    ax.set_xticks(chosen, [str(steps[i]) for i in chosen])
    even = n < 3 or len({b - a for a, b in zip(steps, steps[1:])}) == 1
    ax.set_xlabel("training step" if even else "training step (recorded ones, equally spaced)")
    ax.set_xlim(-0.5, n - 0.5)


def label_lines(
    ax: Axes, labels: Sequence[tuple[float, float, str, str]], size: float = 8.0, at: float = 1.045
) -> None:
    """Writes labels (x, y, text, colour) joined to their points, without overlap.

    `at` is the left end in axes fractions.

    Limits and scales of the axes must be final. A y that cannot be shown has no label.
    """
    places = []
    for x, y, text, line_colour in labels:
        if not np.isfinite(y) or (ax.get_yscale() == "log" and y <= 0):
            continue
        place = ax.transAxes.inverted().transform(ax.transData.transform((0.0, y)))[1]
        places.append((float(np.clip(place, 0.0, 1.0)), (x, y), text, line_colour))
    if not places:
        return
    places.sort(key=lambda p: p[0])
    height_points = ax.bbox.height / ax.figure.dpi * 72
    gaps = [(text.count("\n") + 1) * size * 1.3 / height_points for _, _, text, _ in places]
    heights = spread([p[0] for p in places], gaps, -0.02, 1.02)
    for (_, point, text, line_colour), y in zip(places, heights):
        ax.annotate(
            text,
            xy=point,
            xytext=(at, y),
            textcoords="axes fraction",
            color=ink(line_colour),
            fontsize=size,
            va="center",
            ha="left",
            linespacing=1.05,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line_colour,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0.0, 0.5),
            },
        )


def mark(
    ax: Axes, x: Any, y: Any, symbol: Any, colour: str, *, hollow: bool = False,
    size: float = 5.0, zorder: float = 3.0,
) -> Line2D:  # fmt: skip
    """Marks without a line, also at the edges of the axes; arrows have a size of their own."""
    (drawn,) = ax.plot(
        x, y, linestyle="", marker=symbol, color=colour, clip_on=False, zorder=zorder,
        markerfacecolor="white" if hollow else colour,
        markersize=ARROW_SIZE if isinstance(symbol, Path) else size,
    )  # fmt: skip
    return drawn


def overflow_marks(
    ax: Axes, x: np.ndarray, y: np.ndarray | None = None, colour: str = "#444444"
) -> None:
    """Marks every x with overflow, which has no error, by a cross at the top or at `y`."""
    if not len(x):
        return
    marks = mark(ax, x, np.ones(len(x)) if y is None else y, "x", colour, size=4.5, zorder=5)
    if y is None:
        marks.set_transform(ax.get_xaxis_transform())
    if "× overflow" not in ax.get_xlabel():
        ax.set_xlabel("; ".join(filter(None, [ax.get_xlabel(), "× overflow"])))


def legend_below(ax: Axes, entries: Iterable[tuple[str, str, str, str]], columns: int) -> None:
    """A legend below the axes: outside of them in a single figure, below its own axes in a grid.

    An entry is a name, and its colour, marker and line.
    """
    handles = [
        Line2D([], [], label=name, color=colour, marker=symbol, linestyle=line, linewidth=1.0)
        for name, colour, symbol, line in entries
    ]
    alone = len(ax.figure.axes) == 1
    place = (
        {"loc": "outside lower center"}
        if alone
        else {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
    )
    (ax.figure if alone else ax).legend(
        handles=handles, ncols=columns, handletextpad=0.1, columnspacing=1.0, **place
    )


def note(ax: Axes, text: str) -> None:
    """A plain sentence in the middle of an Axes that has nothing to draw."""
    ax.text(
        0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color="#555555", wrap=True
    )
