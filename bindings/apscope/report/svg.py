"""A figure as SVG inside HTML: no foreign address, no id that another figure has too."""

from __future__ import annotations

import io
import re

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from ..plots.style import STYLE

_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMESPACE = re.compile(r'\s+xmlns(:\w+)?="[^"]*"')
_SIZE = re.compile(r'<svg([^>]*?) width="([\d.]+)pt" height="([\d.]+)pt"')


def inline_svg(figure: Figure, prefix: str, description: str) -> Markup:
    """The figure as an <svg> element whose ids begin with `prefix`.

    The same figure and prefix give the same text. `description` is what a screen reader says.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, dpi=200)
    text = _METADATA.sub("", _PROLOGUE.sub("", buffer.getvalue(), count=1))
    text = _NAMESPACE.sub("", text).replace("xlink:href", "href")
    for pattern in (r'(\bid=")', r"(url\(#)", r'(\bhref="#)'):
        text = re.sub(pattern, lambda found: found.group(1) + prefix + "-", text)
    # Drawn at its own size in CSS pixels (4/3 of a point), narrower where the page is.
    text = _SIZE.sub(
        lambda m: f'<svg{m.group(1)} role="img" aria-label="{Markup.escape(description)}" style="width:{float(m.group(2)) * 4 / 3:.0f}px"',
        text, count=1,
    )
    # A reader without DejaVu Sans gets one about as wide.
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return Markup(text.strip())
