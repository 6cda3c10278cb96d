"""The marker `quick`: the tests of the files and folders in .ci/sanitized/tests.txt.

Threads share arrays however short these are, so that tests of threads need no large ones.
"""

from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ImportError):  # some tests need no extension module
    from apscope import _core

    _core.set_share_of_a_thread(0.0)

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of a listed file, or of a file in a listed folder."""
    lines = (ROOT / ".ci/sanitized/tests.txt").read_text().splitlines()
    listed = {ROOT / line for line in lines if not line.startswith("#")}
    quick = {path: not listed.isdisjoint([path, *path.parents]) for path in {i.path for i in items}}
    for item in items:
        if quick[item.path]:
            item.add_marker("quick")
