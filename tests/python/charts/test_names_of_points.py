"""Names beside points of a chart: apart from one another, in the order of the points."""

import math
from xml.etree import ElementTree

import numpy as np

from apscope._charts.describe import Chart, Log, Point
from apscope._charts.svg import chart_svg


def test_names_stand_apart_in_the_order_of_their_points():
    random = np.random.default_rng(8)
    for _ in range(20):
        n = int(random.integers(2, 9))
        points = [
            Point(
                float(a),
                float(b),
                "#000",
                "circle",
                label=f"{i} name " + "x" * int(random.integers(3, 20)),
            )
            for i, (a, b) in enumerate(
                zip(np.sort(random.uniform(1, 1.3, n)), np.sort(random.uniform(1, 90, n))[::-1])
            )
        ]
        chart = Chart("t", "s", Log("x", 0.5, 8, ()), Log("y", 0.5, 100, ()), points=points)
        root = ElementTree.fromstring(chart_svg(chart, 350, 158))
        height = {p.label: p.y for p in points}
        boxes = []
        for e in root:
            if e.get("class") != "name":
                continue
            left, wide = float(e.get("x")), 6.7 * len(e.text)
            left -= wide if e.get("text-anchor") == "end" else 0
            boxes.append((left, left + wide, float(e.get("y")), height[e.text]))
        assert boxes
        for i, (left, end, at, value) in enumerate(boxes):
            assert left > 30 and end < 356 and 10.5 < at < 129
            for other in boxes[:i]:
                if left < other[1] - 0.2 and other[0] < end - 0.2:
                    assert abs(at - other[2]) > 10.3
                    level = abs(math.log(value / other[3])) < 0.06  # less than about a pixel
                    assert level or (at > other[2]) == (value < other[3])
