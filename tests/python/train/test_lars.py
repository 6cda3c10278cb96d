"""LARS against its formula in fp64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from apscope.train._lars import LARS  # noqa: E402


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_it_is_the_formula(decay):
    random = np.random.default_rng(0)
    weights = [random.standard_normal((3, 4)), np.zeros(5), random.standard_normal(2)]
    parameters = [torch.nn.Parameter(torch.tensor(w, dtype=torch.float64)) for w in weights]
    optimizer = LARS(parameters, lr=7.0, momentum=0.8, weight_decay=decay)
    moved = [np.zeros_like(w) for w in weights]
    for step in range(4):
        for i, (w, v) in enumerate(zip(weights, moved, strict=True)):
            g = np.zeros(2) if i == 2 and step == 1 else random.standard_normal(w.shape)
            parameters[i].grad = torch.tensor(g)
            length, slope = np.linalg.norm(w), np.linalg.norm(g)
            rate = 7.0 * 0.001
            if length > 0 and slope > 0:
                rate *= length / (slope + decay * length)
            v[...] = 0.8 * v + rate * (g + decay * w)
            w -= v
        optimizer.step()
    for p, w in zip(parameters, weights, strict=True):
        assert p.detach().numpy() == pytest.approx(w, rel=1e-12)
    optimizer.zero_grad()
    assert optimizer.step(lambda: 3.0) == 3.0  # nothing has a gradient: nothing moves
    assert parameters[0].detach().numpy() == pytest.approx(weights[0], rel=1e-12)
