"""Labels beside a chart, without overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(
    places: Sequence[float], heights: Sequence[float], low: float = -np.inf, high: float = np.inf
) -> list[float]:
    """Ascending centres of boxes near `places`, without overlap, if possible in `low` to `high`."""
    has_room = sum(heights) <= high - low
    # Clusters of touching boxes, each centred on the mean of the places of its boxes.
    clusters: list[tuple[list[float], list[float]]] = []

    def bounds(cluster: tuple[list[float], list[float]]) -> tuple[float, float]:
        wanted, sizes = cluster
        offsets = np.cumsum(sizes) - np.array(sizes) / 2
        start = float(np.mean(np.array(wanted) - offsets))
        if has_room:
            start = max(low, min(start, high - sum(sizes)))
        return start, start + sum(sizes)

    for place, height in zip(places, heights):
        clusters.append(([place], [height]))
        while len(clusters) > 1 and bounds(clusters[-2])[1] > bounds(clusters[-1])[0]:
            wanted, sizes = clusters.pop()
            clusters[-1][0].extend(wanted)
            clusters[-1][1].extend(sizes)
    centres = []
    for cluster in clusters:
        start, _ = bounds(cluster)
        offsets = np.cumsum(cluster[1]) - np.array(cluster[1]) / 2
        centres += [start + float(o) for o in offsets]
    return centres
