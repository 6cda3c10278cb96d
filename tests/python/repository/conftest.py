"""What several tests of the repository share."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def reductions():
    """docs/reductions.py, which writes README's answer and the tables of docs/reductions.md."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        import reductions

        yield reductions
