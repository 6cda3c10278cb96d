"""A bundled trace, which tests of many parts read."""

import pytest


@pytest.fixture(scope="session")
def digits(request):
    return str(request.config.rootpath / "notebooks/data/digits")
