"""The script that draws docs/fractrain_gates.png, after one epoch: its cells are the choices."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from docs.tools import fractrain_gates as script
from tests.python.drawn_labels import faults


def test_the_picture_has_a_panel_per_block_with_every_choice(tmp_path):
    chosen, classes, targets = script.recorded(epochs=1)
    assert chosen.shape == (3, 3, script.SAMPLES) and len(targets) == 12
    assert set(np.unique(chosen)) <= set(range(5)) and list(classes) == sorted(classes)
    figure = script.draw(tmp_path / "it.png", (chosen, classes, targets))
    assert faults(figure) == []
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
    for t, ax in enumerate(figure.axes[:3]):
        assert ax.get_title(loc="left") == f"block{t + 1}"
        drawn = ax.collections[0].get_array().reshape(script.SAMPLES, 3)
        assert np.array_equal(drawn, chosen[:, t].T)
