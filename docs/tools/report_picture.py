"""Draws docs/report_1400.png and docs/report_420.png, the first screens of a report: python -m docs.tools.report_picture REPORT.html

Needs Chromium, as the tests of the report do.
"""

import argparse
import io
from pathlib import Path

from PIL import Image

from tests.python.browser import READY, Browser

from .page import DOCS

SIZES = {1400: 1000, 420: 900}


def drawn(browser: Browser, address: str, width: int) -> Image.Image:
    """The first screen of a page, so many pixels wide."""
    browser.resize(width, SIZES[width])
    browser.open(address, READY)
    return Image.open(io.BytesIO(browser.picture())).convert("RGB")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="the page")
    address = parser.parse_args(arguments).report.resolve(strict=True).as_uri()
    browser = Browser()
    try:
        for width in SIZES:
            # A palette, for a third of the bytes; by coverage, so that the small coloured dots keep
            # their colours.
            picture = drawn(browser, address, width).quantize(
                128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
            )
            picture.save(DOCS / f"report_{width}.png", optimize=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
