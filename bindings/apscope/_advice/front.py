"""The front of volume and error: the best mixtures, from the smallest volume to the least error.

They are the corners of the lower convex hull. Each is the exact optimum for its volume; between
two corners no mixture is below the line that joins them.
"""

from __future__ import annotations

import numpy as np


def corners(
    use: np.ndarray, cost: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The corners.

    Parameters
    ----------
    use, cost : (units, options) floats
        The terms of the volume and of the error.
    allowed : (units, options) bools

    Returns
    -------
    volumes, costs : (corners,) floats
        Rising, falling.
    choices : (corners, units) int array
    """
    steps = []  # slope, unit, to which option
    now = np.zeros(len(use), np.int64)
    for unit in range(len(use)):
        hull = _hull(use[unit], cost[unit], np.flatnonzero(allowed[unit]))
        now[unit] = hull[0]
        steps += [
            ((cost[unit, b] - cost[unit, a]) / (use[unit, b] - use[unit, a]), unit, b)
            for a, b in zip(hull, hull[1:])
        ]
    choices = [now.copy()]
    slopes: list[float] = []
    # Stable: ties in the order of the units.
    for slope, unit, option in sorted(steps, key=lambda step: step[0]):
        now[unit] = option
        if slopes and slope == slopes[-1]:
            choices[-1] = now.copy()
        else:
            choices.append(now.copy())
        slopes.append(slope)
    found = np.array(choices)
    rows = np.arange(len(use))
    return use[rows, found].sum(axis=1), cost[rows, found].sum(axis=1), found


def _hull(use: np.ndarray, cost: np.ndarray, options: np.ndarray) -> list[int]:
    """A unit's options on the lower convex hull, from the least use on while the cost falls."""
    order = options[np.lexsort([options, cost[options], use[options]])]
    hull: list[int] = []
    for k in order:
        if hull and cost[k] >= cost[hull[-1]]:
            continue
        while len(hull) > 1:
            a, b = hull[-2:]
            if (cost[b] - cost[a]) * (use[k] - use[a]) < (cost[k] - cost[a]) * (use[b] - use[a]):
                break
            hull.pop()
        if hull and use[k] == use[hull[-1]]:
            continue
        hull.append(int(k))
    return hull
