"""Draws docs/picture.svg, the picture of README.md: python -m docs.tools.picture RESULTS docs/picture.svg

What the reduction, the format and the scale are worth on two of the bundled traces: the bars of a
report's first screen, with the words that they need. One file for light and dark, legible 400 and
1,400 pixels wide.
"""

import argparse
import math
from pathlib import Path
from xml.etree import ElementTree

from apscope import Results
from apscope._charts.choices import choices_chart
from apscope._charts.describe import Bars
from apscope._charts.front import MEASURES
from apscope._charts.svg import bars_svg
from apscope._report import shown_schemes
from apscope._results.choices import worth
from apscope._results.ranking import RANKS

TRACES = {"resnet18": "ResNet-18, on images", "gpt": "a GPT, on text"}
WIDTH, EDGE, LINE = 400.0, 8.0, 14.0
#: As in the report's style.css.
STYLE = """
svg { font: 10.5px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.paper { fill: #fff; } text { fill: #1d2127; } .tick, .unit, .soft { fill: #5c6470; }
.name { font-weight: 600; } .head { font-size: 13px; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #15181c; } text { fill: #e4e7eb; } .tick, .unit, .soft { fill: #9aa3af; }
  .bar { stroke: #9aa3af; stroke-width: 0.6; }
}
"""
HEAD = "What each choice is worth, the others unchanged"
WORDS = (
    "Bars: the error divided by that of the scheme in the heading,",
    "on a logarithmic scale.",
    "two phases: every worker rounds its values once, sums are fp32,",
    "each sum is rounded once. ring: partial sums are rounded at",
    "every worker, under a scale with room for the sum of all W",
    "workers, or of √W, whose larger sums saturate. Both send the",
    "same bytes but for scales.",
    "e2m5: a float with 2 exponent bits and 5 mantissa bits; finite:",
    "without infinity and NaN.",
    "error: NMSE of a step, squared error over squared gradient.",
    "8 and 4 bits: of a value sent.",
)


def bars_of(results: Results, trace: str) -> Bars:
    """The bars of one trace."""
    frame = results.frame
    rows = shown_schemes.front(results.summary(), shown_schemes.topology_of(frame))
    rows = rows[rows["trace"] == trace]
    return choices_chart(worth(rows, shown_schemes.bits_of(frame)), MEASURES[RANKS])


def picture(results: Results, traces: dict[str, str] = TRACES) -> str:
    """The picture as SVG: a heading, the bars of every trace under its name, and the words."""
    inner = WIDTH - 2 * EDGE
    bars = [bars_of(results, trace) for trace in traces]
    factors = [bar.factor for one in bars for _, group in one.groups for bar in group]
    most = max(factor for factor in factors if math.isfinite(factor))
    charts = [ElementTree.fromstring(bars_svg(one, inner, 220.0, most)) for one in bars]
    heights = [float(chart.get("viewBox", "").split()[3]) for chart in charts]
    height = 2 * EDGE + LINE * (1.4 + len(WORDS)) + sum(heights) + 1.8 * LINE * len(charts)
    says = f"{HEAD}. " + " ".join(
        f"{name}: {chart.get('aria-label')}" for name, chart in zip(traces, charts)
    )
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg", "width": "640", "role": "img",
            "viewBox": f"0 0 {WIDTH:g} {height:g}", "aria-label": says,
        },
    )  # fmt: skip
    ElementTree.SubElement(root, "style").text = STYLE
    ElementTree.SubElement(root, "rect", {"class": "paper", "width": "100%", "height": "100%"})
    top = EDGE

    def write(text: str, kind: str) -> None:
        nonlocal top
        top += LINE
        place = {"class": kind, "x": f"{EDGE + 2:g}", "y": f"{top - 3:g}"}
        ElementTree.SubElement(root, "text", place).text = text

    write(HEAD, "head")
    for (name, called), chart, high in zip(traces.items(), charts, heights):
        top += 0.6 * LINE
        write(f"{name}: {called}", "name")
        top += 0.2 * LINE
        place = {"x": EDGE, "y": top, "width": inner, "height": high}
        chart.attrib |= {key: f"{value:g}" for key, value in place.items()}
        for key in ("role", "aria-label", "class"):
            del chart.attrib[key]
        root.append(chart)
        top += high
    top += 0.4 * LINE
    for line in WORDS:
        write(line, "soft")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="of `apscope replay ... --scheme main`")
    parser.add_argument("picture", type=Path, help="docs/picture.svg")
    args = parser.parse_args(arguments)
    args.picture.write_text(picture(Results.open(args.results)), encoding="utf-8")


if __name__ == "__main__":
    main()
