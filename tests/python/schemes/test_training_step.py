"""The step argument of a scheme's Python parts."""

import sys

import pytest

from apscope import _core


def step(tensor: str, role: str) -> _core.TrainingStep:
    return _core.TrainingStep(tensor, role, [2, 3], 7, 0, 5, 0.5, 0.1)


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="this interpreter counts no references")
def test_names_are_not_kept_alive():
    name, role = sys.intern("a tensor of this test alone"), sys.intern("a role of this test alone")
    before = sys.getrefcount(name), sys.getrefcount(role)
    for _ in range(10):
        assert step(name, role).tensor == name
    assert (sys.getrefcount(name), sys.getrefcount(role)) == before
