"""A browser for the tests of a file; they are skipped where Chromium is not installed."""

import pytest

from tests.python.browser import CHROMIUM, Browser


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: chromium)")
    made = Browser()
    yield made
    made.close()
