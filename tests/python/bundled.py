"""The bundled traces as parameters of tests; the larger two are for `make exhaustive`."""

import pytest

BUNDLED = [
    "digits",
    "digits_w64",
    "characters",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("resnet18", "gpt")),
]
