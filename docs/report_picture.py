"""Draws docs/report_1400.png and docs/report_420.png, the first screens of a report: python docs/report_picture.py REPORT.html

Needs Chromium, as the tests of the report do.
"""

import argparse
import io
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.python.browser import Browser

HERE = Path(__file__).parent
SIZES = {1400: 1000, 420: 900}


def drawn(browser: Browser, address: str, width: int) -> Image.Image:
    """The first screen of a page, so many pixels wide."""
    browser.resize(width, SIZES[width])
    browser.open(address, "document.documentElement?.classList.contains('ready')")
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
            picture.save(HERE / f"report_{width}.png", optimize=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
