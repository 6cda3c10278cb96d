"""Labels that a reader cannot read: outside their frame, cut, over another, broken or faint:
python -m tests.python.labels FILE... of HTML or SVG."""

import argparse
import base64
import re
from pathlib import Path
from typing import NamedTuple

from tests.python.browser import READY, Browser

FIND = (Path(__file__).parent / "labels.js").read_text(encoding="utf-8")
_FOLDED = "document.querySelectorAll('main details:not(.menu)')"
#: Pixels: a phone, a screen, and a sheet of US letter, which is narrower than A4, across, within
#: its margins.
WIDTHS, SHEET = (420, 1400), 980


class Fault(NamedTuple):
    """A label, what is wrong with it, and where: the view and the part of the page."""

    view: str
    kind: str
    text: str
    where: str


def faults(browser: Browser, path: Path, widths: tuple[int, ...] = WIDTHS) -> list[Fault]:
    """Every fault of a file's labels at these widths, light, dark and on paper.

    An SVG file is looked at as pages show it, at most as wide as they are.
    """
    found: list[Fault] = []

    def look(view: str) -> None:
        told = browser.run(FIND)
        assert told["labels"] > 0, f"{path.name} has no label, {view}"
        found.extend(Fault(view, *fault) for fault in told["found"])

    live = path.suffix == ".html" and 'id="payload"' in path.read_text(encoding="utf-8")
    for width in widths:
        browser.prefer("light")
        browser.resize(width, 1000)
        browser.open(_address(path), READY if live else "document.readyState === 'complete'")
        if live:
            # Everything that a reader can unfold, and a layer's charts.
            browser.run(f"{_FOLDED}.forEach((d) => (d.open = true))")
            browser.run(
                "apscopePage.state.picked = {layer: apscopePage.view().layers[0], step: null}; "
                "apscopePage.update()"
            )
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            if live:
                browser.run("apscopePage.drawAll()")
            look(f"{width} {scheme}")
        if live:
            # Folded again: paper unfolds what it needs.
            browser.run(
                f"{_FOLDED}.forEach((d) => (d.open = false)); dispatchEvent(new Event('beforeprint'))"
            )
        browser.call("Emulation.setEmulatedMedia", media="print")
        browser.resize(SHEET, 1000)
        look(f"print from {width}")
        browser.call("Emulation.setEmulatedMedia", media="")
    return found


def _address(path: Path) -> str:
    if path.suffix != ".svg":
        return path.as_uri()
    text = (
        "<!doctype html><meta charset=utf-8><style>body { margin: 0 } "
        "svg { max-width: 100%; height: auto }</style>" + path.read_text(encoding="utf-8")
    )
    return "data:text/html;base64," + base64.b64encode(text.encode()).decode()


def lines(found: list[Fault]) -> list[str]:
    """Faults, one per line, those of several views once."""
    views: dict[tuple[str, str, str], list[str]] = {}
    for view, *rest in found:
        views.setdefault((rest[0], re.sub(r"\s+", " ", rest[1]), rest[2]), []).append(view)
    return [
        f"{kind}: {text!r} in {where} ({', '.join(seen)})"
        for (kind, text, where), seen in views.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    browser = Browser()
    count = 0
    try:
        for path in parser.parse_args(arguments).files:
            told = lines(faults(browser, path.resolve(strict=True)))
            count += len(told)
            print(f"{path}: {len(told)} faults", *told, sep="\n  ")
    finally:
        browser.close()
    return min(count, 1)


if __name__ == "__main__":
    raise SystemExit(main())
