"""The script that draws docs/quickreduce.png, at few sizes: its lines are the page's."""

import numpy as np

from docs.tools import quickreduce as script
from tests.python.drawn_labels import faults


def test_it_draws(tmp_path):
    assert faults(script.draw(tmp_path / "picture.png", np.array([1e-4, 1e-2]))) == []
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_lines_cross_and_the_bound_keeps_them_in_order():
    small = np.array([1e-4])
    of = lambda keys: [script.errors(f"quickreduce:{c}{keys}", small)[0] for c in script.CODECS]
    as_it_is, bounded = of(""), of(script.BOUND)
    assert as_it_is[0] > as_it_is[1] > as_it_is[2]
    assert bounded[0] <= bounded[1] < bounded[2]
