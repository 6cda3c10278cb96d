"""The bundled trace that most plans are made for, and the results of common candidates."""

import pytest

import apscope
from tests.python.advice.cases import CANDIDATES


@pytest.fixture(scope="session")
def digits(request):
    return apscope.open_trace(request.config.rootpath / "notebooks/data/digits")


@pytest.fixture(scope="session")
def results(digits):
    return apscope.replay(digits, CANDIDATES, topology="ring")
