"""Unit scaling: the factors by hand, unit variance, the claim."""

import math

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from apscope.studies.unit_scaling import unit_scales  # noqa: E402
from apscope.train import unit_scaling  # noqa: E402
from docs.tools.method_claims import unit_scaling as claim  # noqa: E402


def rounded(x, dtype, largest):
    return np.clip(x, -largest, largest).astype(dtype).astype(np.float64)


def e4m3(x):
    return rounded(x, ml_dtypes.float8_e4m3, 240.0)


def e5m2(x):
    return rounded(x, ml_dtypes.float8_e5m2, 57344.0)


@pytest.mark.parametrize("constrained", [False, True])
def test_a_linear_layer_by_hand_bit_for_bit(constrained):
    """16 inputs, 4 outputs, 64 samples: all factors are powers of two, all sums exact in fp64."""
    rng = np.random.default_rng(0)
    x, w, b, g = (rng.standard_normal(s) for s in ((4, 16, 16), (4, 16), (4,), (4, 16, 4)))
    layer = unit_scaling.Linear(
        16, 4, format="e4m3", gradient="e5m2", constrained=constrained, dtype=torch.float64
    )
    layer.weight.data.copy_(torch.from_numpy(w))
    layer.bias.data.copy_(torch.from_numpy(b := np.round(b * 64) / 64))
    given = torch.from_numpy(x).requires_grad_()
    y = layer(given)
    y.backward(torch.from_numpy(g))
    qx, qw, qg = e4m3(x), e4m3(w), e5m2(g)
    assert np.array_equal(y.detach().numpy(), qx @ qw.T / 4 + b)
    assert np.array_equal(given.grad.numpy(), qg @ qw / (4 if constrained else 2))
    flat = qg.reshape(64, 4)
    assert np.array_equal(layer.weight.grad.numpy(), flat.T @ qx.reshape(64, 16) / 8)
    assert np.array_equal(layer.bias.grad.numpy(), flat.sum(0) / 8)


def test_a_convolution_by_hand_bit_for_bit():
    """A kernel of 2 x 2 with stride 2 divides the image: a linear layer on its parts."""
    rng = np.random.default_rng(1)
    x, w, g = (rng.standard_normal(s) for s in ((4, 4, 4, 4), (16, 4, 2, 2), (4, 16, 2, 2)))
    layer = unit_scaling.Conv2d(
        4, 16, 2, 2, bias=False, format="e4m3", gradient="e5m2", dtype=torch.float64
    )
    layer.weight.data.copy_(torch.from_numpy(w))
    given = torch.from_numpy(x).requires_grad_()
    y = layer(given)
    y.backward(torch.from_numpy(g))
    parts = e4m3(x).reshape(4, 4, 2, 2, 2, 2).transpose(0, 2, 4, 1, 3, 5).reshape(16, 16)
    flat = e5m2(g).transpose(0, 2, 3, 1).reshape(16, 16)
    qw = e4m3(w).reshape(16, 16)
    assert np.array_equal(
        y.detach().numpy().transpose(0, 2, 3, 1).reshape(16, 16), parts @ qw.T / 4
    )
    back = (flat @ qw / 8).reshape(4, 2, 2, 4, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(4, 4, 4, 4)
    assert np.array_equal(given.grad.numpy(), back)
    assert np.array_equal(layer.weight.grad.numpy().reshape(16, 16), flat.T @ parts / 4)


def test_factors_are_those_of_the_study():
    layer = unit_scaling.Linear(10, 7, bias=False)
    x = torch.randn(5, 10, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    by = unit_scales((7, 10), 5, constrained=False)
    assert torch.allclose(y, by.output * (x @ layer.weight.T))
    assert torch.allclose(x.grad, by.input_gradient * torch.ones(5, 7) @ layer.weight)
    assert torch.allclose(layer.weight.grad, by.weight_gradient * torch.ones(5, 7).T @ x)


def test_every_operation_keeps_unit_variance():
    torch.manual_seed(0)
    x = torch.randn(512, 256, requires_grad=True)
    layer = unit_scaling.Linear(256, 1024)
    y = layer(x)
    y.backward(torch.randn_like(y))
    for found in (y, x.grad, layer.weight.grad, layer.bias.grad):
        assert abs(found.std().item() - 1) < 0.1
    image = torch.randn(32, 8, 12, 12, requires_grad=True)
    conv = unit_scaling.Conv2d(8, 16, 3)
    y = conv(image)
    y.backward(torch.randn_like(y))
    inside = image.grad[:, :, 2:-2, 2:-2]  # pixels that all places of the kernel read
    for found in (y, inside, conv.weight.grad):
        assert abs(found.std().item() - 1) < 0.1
    x = torch.randn(10**6, requires_grad=True)
    y = unit_scaling.relu(x)
    y.backward(torch.randn_like(y))
    assert abs(y.std().item() - 1) < 0.01 and abs(x.grad.square().mean().item() - 1) < 0.01


def test_cross_entropy_by_its_derivation():
    for classes in (2, 10):
        output = torch.zeros(6, 4, classes, requires_grad=True)
        targets = torch.randint(0, classes, (6, 4))
        loss = unit_scaling.cross_entropy(output, targets)
        loss.backward()
        assert math.isclose(loss.item(), math.log(classes), rel_tol=1e-6)
        assert math.isclose(output.grad.square().mean().item(), 1.0, rel_tol=1e-5)
        plain = torch.zeros(24, classes, requires_grad=True)
        torch.nn.functional.cross_entropy(plain, targets.reshape(-1)).backward()
        scale = 24 * classes / math.sqrt(classes - 1)
        assert torch.allclose(output.grad.reshape(24, classes), plain.grad * scale)
    with pytest.raises(TypeError, match="int64"):
        unit_scaling.relu(torch.ones(3, dtype=torch.long))
    with pytest.raises(ValueError, match="same"):
        unit_scaling.Conv2d(1, 1, 3, padding="same")
    with pytest.raises(ValueError, match="1 classes"):
        unit_scaling.cross_entropy(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long))


def test_a_network_starts_within_a_factor_of_four_of_one():
    """With PyTorch's initial weights the gradients of outputs are below 0.01."""
    unit, plain = claim.deviations("unit"), claim.deviations("plain")
    assert ((unit > 0.25) & (unit < 4)).all().all()
    assert (plain.output_gradient < 0.01).all()


def test_in_eight_bits_it_trains_without_a_loss_scale():
    """Operands and gradients in e4m3: PyTorch's layers do not learn, unit scaling loses next to
    nothing."""
    rows = claim.run((0, 1), ((None, None), ("e4m3", "e4m3")), steps=100, scales=())
    mean = rows.groupby("case")["loss"].mean()
    assert mean["unit: e4m3, e4m3"] < mean["unit: fp32"] + 0.02
    assert mean["plain: e4m3, e4m3"] > mean["plain: fp32"] + 1
