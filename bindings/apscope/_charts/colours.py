"""Colours of charts: of families of schemes, formats, a pair, and the bands of an error."""

#: For lines that are not families (formats, topologies, roles): the colours of Okabe and Ito
#: without yellow, which is invisible on white paper, and three more that are as dark.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255",
    "#777777", "#999933",
)  # fmt: skip
#: Their marks, in Observable Plot's words.
SYMBOLS = ("circle", "square", "triangle", "diamond", "wye", "plus", "cross", "star")
#: For reductions, where a chart has several: a family is then told by its colour alone.
REDUCTIONS = {"two phases": "diamond", "own": "square", "rounded sums": "circle"}
#: For formats, whose lines have their names beside them; none is the colour of a family.
FORMATS = ("#7a4fa3", "#00827f", "#a8326e", "#6b5b4b", "#333a45", "#5d7a1f")
#: For maps of an error: far below a threshold, below, near, above it, above all.
BANDS = ("#eef1f4", "#d3dae2", "#a7b3c0", "#e8a33d", "#c0392b")
#: For two compared schemes A and B, whatever their families.
PAIR = ("#0f9a94", "#c2417f")


def diverging(low: str, middle: str, high: str) -> tuple[str, ...]:
    """Nine colours from `low` through `middle` to `high`, each ``#rrggbb``."""
    ends = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in (low, middle, high)]

    def mixed(end: list[int], share: float) -> str:
        return "#" + "".join(
            f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(end, ends[1])
        )

    shares = (1.0, 0.72, 0.46, 0.22)
    return (
        *(mixed(ends[0], s) for s in shares),
        middle,
        *(mixed(ends[2], s) for s in reversed(shares)),
    )
