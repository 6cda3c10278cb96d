"""The bundled traces on which claims are tested."""

import pytest

import apscope
from tests.python.one_bit_claims import DATA, TRACES


@pytest.fixture(scope="module", params=TRACES)
def trace(request):
    return apscope.open_trace(DATA / request.param)
