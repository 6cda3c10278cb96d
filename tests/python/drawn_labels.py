"""Labels of a matplotlib figure that a reader cannot read, and points that its axes cut off."""

import itertools
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from apscope import plots

#: Plots of one scheme, and of one or many.
OF_ONE = [
    plots.error_map,
    plots.underflow_heat_map,
    plots.scale_series,
    plots.bias_over_steps,
    plots.bias_by_layer,
    plots.accumulation_by_layer,
]
OF_MANY = [
    plots.nmse_against_cost,
    plots.variance_over_steps,
    plots.sqnr_against_bits,
    plots.accumulation_error,
    plots.nmse_by_layer,
]


#: Pixels by which boxes may touch; the least contrast of a label, of WCAG's large texts.
_NEAR, _CONTRAST = 1.5, 3.0


def faults(figure: Figure) -> list[str]:
    """Every text outside the figure, over another or faint, and every mark outside its axes."""
    drawn: list[tuple[str, np.ndarray, Any]] = []
    renderer = figure.canvas.get_renderer()

    def note(gc, x, y, s, prop, angle, ismath=False, mtext=None):
        if s.strip():
            wide, high, below = renderer.get_text_width_height_descent(s, prop, ismath)
            high -= 0.2 * (high - below)  # letters are lower than their box
            box = np.array([(0, below), (wide, below), (wide, below - high), (0, below - high)])
            turn = np.deg2rad(-angle)  # y grows downwards
            turned = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
            drawn.append((s, box @ np.transpose(turned) + (x, y), gc.get_rgb()))

    own = renderer.draw_text
    renderer.clear()
    renderer.draw_text = note
    try:
        figure.draw(renderer)
        behind = np.asarray(renderer.buffer_rgba())[..., :3] / 255.0
    finally:
        renderer.draw_text = own
    height, width = behind.shape[:2]
    found = []
    for text, box, colour in drawn:
        low, high = box.min(axis=0), box.max(axis=0)
        if (low < -_NEAR).any() or high[0] > width + _NEAR or high[1] > height + _NEAR:
            found.append(f"outside: {text!r}")
            continue
        (x0, y0), (x1, y1) = np.maximum(low, 0).astype(int), high.astype(int)
        ground = np.median(behind[y0 : y1 + 1, x0 : x1 + 1].reshape(-1, 3), axis=0)
        if _contrast(colour[:3], ground) < _CONTRAST:
            found.append(f"faint: {text!r}")
    found += [
        f"overlap: {one[0]!r} and {other[0]!r}"
        for one, other in itertools.combinations(drawn, 2)
        if _meet(one[1], other[1])
    ]
    return found + [f"cut: {point}" for ax in figure.axes for point in _cut(ax)]


def _cut(ax: Any) -> list[str]:
    """Finite points with marks that lie outside the axes."""
    found = []
    for line in ax.lines:
        if line.get_marker() in (None, "None", "", " ") or not line.get_transform().contains_branch(
            ax.transData
        ):
            continue
        points = np.column_stack([np.asarray(v, float) for v in line.get_data()])
        places = ax.transData.transform(points[np.isfinite(points).all(axis=1)])
        inside = ax.bbox.padded(_NEAR)
        found += [
            str(place)
            for place in places
            if np.isfinite(place).all() and not inside.contains(*place)
        ]
    return found


def _light(colour: Any) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


def _contrast(one: Any, other: Any) -> float:
    low, high = sorted((_light(one), _light(other)))
    return (high + 0.05) / (low + 0.05)


def _meet(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether no side of either box separates the two."""
    for box, k in itertools.product((one, other), (0, 1)):
        side = box[k + 1] - box[k]
        along = side / max(float(np.hypot(*side)), 1e-9)
        a, b = one @ along, other @ along
        if min(a.max(), b.max()) - max(a.min(), b.min()) <= _NEAR:
            return False
    return True
