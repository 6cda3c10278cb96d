"""Adaptive loss scaling inside backpropagation: the rule by hand, graphs with joins, the claim."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from apscope.studies.activation_scales import join_scales, layer_scale  # noqa: E402
from apscope.train import AdaptiveLossScaling, FracTrain, Workers  # noqa: E402
from docs.tools.method_claims import adaptive_loss_scaling as claim  # noqa: E402
from tests.reference import adaptive_loss_scale as rule  # noqa: E402

U_MAX, U_MIN = 65504.0, 2.0**-24
QUANTILE = 0.0012533145  # sqrt(2) erfinv(1e-3), as ada-loss has it


def below(l):
    return 2.0 ** math.floor(math.log2(l))


def grid(rng, shape, bits, scale=1.0):
    """Multiples of 2^-bits within 1: products and sums of them are exact in fp64."""
    return scale * rng.integers(-(2**bits), 2**bits + 1, shape) / 2.0**bits


def fp16(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float64)


def own_scale(g, w, cumulative):
    """Section 3.4's formula, for a matrix of weights, with the bounds and the power of two."""
    return below(min(unbounded(g, w), 1024 / cumulative, 16.0))


def unbounded(g, w):
    fan = w.shape[0]
    variance = (g.var() + g.mean() ** 2) * (w.var() + w.mean() ** 2)
    sigma = math.sqrt(variance) * math.sqrt(0.5 * fan)
    if sigma == 0:
        return 1.0
    l = max(1.0, U_MIN / (QUANTILE * sigma))
    return min(l, U_MAX / fan / (np.abs(g).max() * np.abs(w).max()))


def by_hand(weights, inputs, outer, start=1.0, stored=lambda x: x):
    """Gradients of sum(outer * net(x)) for linear layers with ReLU between, by the rule, in
    NumPy."""
    active = [inputs]
    for w in weights[:-1]:
        active.append(np.maximum(active[-1] @ w.T, 0.0))
    g, scale, found, scales = outer, start, [], []
    for i, w in reversed(list(enumerate(weights))):
        g = fp16(g * scale)
        found.append([stored(fp16(sums) / scale) for sums in (g.T @ active[i], g.sum(0))])
        if i:
            l = own_scale(g, w, scale)
            passed = fp16(fp16(g * l) @ w) / (scale * l)
            scales.append((scale, l, scale * l))
            scale *= l
            g = np.where(active[i] > 0, passed, 0.0)
        else:
            scales.append((scale, 1.0, scale))
    return found, scales


def chain(weights):
    model = nn.Sequential()
    for i, w in enumerate(weights):
        layer = nn.Linear(*reversed(w.shape), dtype=torch.float64)
        layer.weight.data.copy_(torch.from_numpy(w))
        layer.bias.data.zero_()
        model.append(layer)
        if i + 1 < len(weights):
            model.append(nn.ReLU())
    return model


@pytest.mark.parametrize(
    "size, start, stored",
    [(1.0, 1, None), (1e-3, 1, None), (1e-6, 1, None), (1e-6, 1, "fp16"), (1e-8, 2**13, "fp16")],
)
def test_the_rule_by_hand_bit_for_bit(size, start, stored):
    """Sums are exact: weights have 4 bits; gradients are small enough to underflow in fp16."""
    rng = np.random.default_rng(0)
    weights = [grid(rng, shape, 4) / 4 for shape in ((8, 6), (8, 8), (4, 8), (3, 4))]
    inputs = grid(rng, (5, 6), 3)
    outer = size * rng.standard_normal((5, 3))
    outer = fp16(outer) if start == 1 else outer
    model = chain(weights)
    scales = AdaptiveLossScaling(model, "fp16", start=start, stored=stored)
    with scales:
        y = model(torch.from_numpy(inputs))
    (y * torch.from_numpy(outer)).sum().backward()
    exact, wanted = by_hand(weights, inputs, outer, start)
    found = by_hand(weights, inputs, outer, start, fp16)[0] if stored else exact
    assert [(s.arrived, s.scale, s.passed) for s in scales.layers] == wanted
    layers = [m for m in model if isinstance(m, nn.Linear)][::-1]
    for layer, (gw, gb) in zip(layers, found, strict=True):
        assert np.array_equal(layer.weight.grad.numpy(), gw)
        assert np.array_equal(layer.bias.grad.numpy(), gb)
    if start == 1:  # Small gradients are scaled up, and large ones are not.
        assert (wanted[-1][2] > 1) == (size < 1)
    else:  # The bound of 1024 counts the first scale.
        assert wanted[0] == (start, 1024 / start, 1024)
    # A weight gradient can underflow once more at the division.
    if stored:
        assert any((a != b).any() for one, other in zip(exact, found) for a, b in zip(one, other))


def test_the_forward_pass_and_the_state_dict_do_not_change():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.Flatten(), nn.Linear(64, 3))
    x, keys = torch.randn(2, 2, 4, 4), list(model.state_dict())
    plain, (conv, _, head) = model(x), model
    # The bias is added to the product, where PyTorch's own kernels may begin with it.
    hidden = nn.functional.conv2d(x, conv.weight, None, 1, 1, 1, 2) + conv.bias.reshape(-1, 1, 1)
    wanted = nn.functional.linear(hidden.flatten(1), head.weight) + head.bias
    assert torch.allclose(wanted, plain, rtol=1e-5, atol=1e-5)
    with AdaptiveLossScaling(model):
        assert torch.equal(model(x), wanted)
    assert list(model.state_dict()) == keys and torch.equal(model(x), plain)


def test_in_a_wide_format_gradients_are_those_of_pytorch():
    torch.manual_seed(0)
    net = [nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, bias=True), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*net, nn.Linear(16, 3)).double()
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    with AdaptiveLossScaling(model, "fp64"):
        y = model(x)
    found = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-14)


class Residual(nn.Module):
    """Both ways from `stem` reach `head`."""

    def __init__(self):
        super().__init__()
        self.stem, self.inner, self.head = (nn.Linear(8, 8, bias=False) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        return self.head(x + torch.tanh(self.inner(x)))


def test_where_two_layers_read_an_output_the_largest_scale_that_fits_is_taken():
    torch.manual_seed(0)
    model = Residual()
    x = torch.randn(4, 8)
    scales = AdaptiveLossScaling(model, "fp16")
    with scales:
        y = model(x)
    (y * 1e-6).sum().backward()
    head, inner, stem = scales.layers
    assert [s.layer for s in scales.layers] == ["head", "inner", "stem"]
    assert inner.arrived == head.passed == 16 and inner.passed > inner.arrived
    assert stem.arrived == max(head.passed, inner.passed)


@pytest.mark.parametrize(
    "g, start, arrived, overflows",
    [
        (96.0, 1.0, 1.0, False),  # 192 of 240
        (192.0, 1.0, 0.5, False),
        (120.0, 1.0, 0.5, False),  # The largest value itself does not fit.
        (120.0 * 64, 1 / 64, 1 / 64, False),  # Below 1/8 no other scale is tried,
        (240.0 * 64, 1 / 64, 1 / 64, True),  # and the step has overflowed.
    ],
)
def test_a_sum_that_fits_at_no_layers_scale_arrives_at_a_halved_one(g, start, arrived, overflows):
    stem, *heads = layers = [nn.Linear(1, 1, bias=False) for _ in range(3)]
    for layer in layers:
        nn.init.ones_(layer.weight)
    scales = AdaptiveLossScaling(nn.ModuleList(layers), "e4m3", start=start)
    with scales:
        x = stem(torch.ones(1, 1))
        y = heads[0](x) + heads[1](x)
    (y * g).sum().backward()
    first, second, last = scales.layers
    assert first.passed == second.passed == start
    assert last.arrived == arrived and scales.overflowed == overflows
    assert overflows or stem.weight.grad.item() == 2 * g


def test_a_constant_scale_is_loss_scaling():
    """With a power of two, nothing lost: the gradients of the scaled loss, divided."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(4, 8)
    scales = AdaptiveLossScaling(model, "fp16", scale=2.0**12)
    with scales:
        loss = model(x).square().mean() * 2.0**-14
    loss.backward()
    kept = [p.grad.clone() for p in model.parameters()]
    assert all((s.arrived, s.scale, s.passed) == (4096, 1, 4096) for s in scales.layers)
    model.zero_grad()
    unscaled = AdaptiveLossScaling(model, "fp16", scale=1.0)
    with unscaled:
        loss = model(x).square().mean() * 2.0**-2
    loss.backward()
    for a, p in zip(kept, model.parameters(), strict=True):
        assert torch.equal(a * 2.0**12, p.grad)


def test_overflow_is_told_and_options_are_checked():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    scales = AdaptiveLossScaling(model, "e4m3", scale=2.0**20)
    with scales:
        loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    assert scales.overflowed
    for error, words, options in [
        (ValueError, "power of two", {"scale": 3.0}), (ValueError, "power of two", {"start": -1.0}),
        (TypeError, "not an option", {"fan": 3}), (ValueError, "every", {"every": 0}),
        (ValueError, "cast='fp16'", {"cast": "fp16"}),
        (ValueError, "scale=2.0 must be", {"cast": "normal", "scale": 2.0}),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            AdaptiveLossScaling(model, **options)
    with pytest.raises(TypeError, match="torch.nn.Module"):
        AdaptiveLossScaling(torch.ones(3))
    with pytest.raises(ValueError, match="numbers"):
        with AdaptiveLossScaling(conv := nn.Conv2d(1, 1, 3, padding="same")):
            conv(torch.ones(1, 1, 4, 4))


def test_a_kept_scale_is_bounded_anew_by_the_scale_that_arrives():
    rng = np.random.default_rng(2)
    w = [grid(rng, (8, 8), 4) / 64 for _ in range(4)]
    x, outer = rng.standard_normal((4, 8)), fp16(1e-6 * rng.standard_normal((4, 8)))
    scales = AdaptiveLossScaling(model := chain(w), "fp16", every=3)
    kept = []
    for start in (1.0, 256.0, 4096.0):
        scales.start = start
        with scales:
            y = model(torch.from_numpy(x))
        (y * torch.from_numpy(outer)).sum().backward()
        arrived, own = ([getattr(s, name) for s in scales.layers] for name in ("arrived", "scale"))
        if not kept:  # g W of the first pass; the last layer's gradient is exact in fp16
            kept = [unbounded(fp16(outer), w[3])]
        assert own[0] == below(min(kept[0], 1024 / start, 16.0))
        assert arrived[1] == start * own[0]
    assert kept[0] > 1024 and own[0] == 0.25
    with scales:
        y = model(torch.from_numpy(x))
    (y * torch.from_numpy(outer)).sum().backward()
    assert scales.layers[0].scale == below(min(unbounded(fp16(4096 * outer), w[3]), 0.25))


def test_scales_are_kept_for_as_many_passes_as_asked():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    x, seen = torch.randn(4, 8), []
    scales = AdaptiveLossScaling(model, every=2)
    for size in (1e-7, 1.0, 1.0):
        with scales:
            y = model(x)
        (y * size).sum().backward()
        seen.append([s.scale for s in scales.layers])
    assert seen[0] == seen[1] and max(seen[0]) > 1 and max(seen[2]) == 1


def test_workers_exchange_its_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    workers = Workers(
        model,
        nn.functional.cross_entropy,
        optimizer,
        workers=2,
        exchange="none:fp32",
        batched=False,
    )
    x, y = torch.randn(8, 8), torch.randint(0, 2, (8,))
    scales = AdaptiveLossScaling(model, "e4m3")
    with scales:
        workers.backward(x, y)
    for worker in range(2):
        with scales:
            loss = nn.functional.cross_entropy(model(x[4 * worker :][:4]), y[4 * worker :][:4])
        wanted = torch.autograd.grad(loss, list(model.parameters()))
        for (name, rows), g in zip(workers.gradients.items(), wanted, strict=True):
            assert torch.equal(rows[worker], g.reshape(-1)), name


def test_without_tuning_it_ends_with_the_best_constant_scale():
    """In e4m3 on digits: a scale of 1 costs 0.1 nats; with 4096 the model does not learn."""
    found = claim.run((0, 1), claim.DIGITS[:1], steps=100).groupby("case")["loss"].mean()
    constant = {k: v for k, v in found.items() if k.startswith("scale")}
    assert found["adaptive"] < min(constant.values()) + 0.02
    assert found["adaptive"] < found["scale 1"] - 0.1
    assert found["scale 4096"] > found["adaptive"] + 1


@pytest.mark.parametrize("kind", [AdaptiveLossScaling, FracTrain])
def test_a_compiled_model_has_the_same_bits(kind):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(4, 6)
    compiled, found = torch.compile(model, backend="eager"), []
    plain = compiled(x)
    for called in (model, compiled):
        model.zero_grad()
        with kind(model):
            y = called(x)
        y.square().sum().backward()
        found.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert torch.equal(compiled(x), plain)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        with kind(model):
            (g,) = torch.autograd.grad(model(x).sum(), model[0].weight, create_graph=True)
        g.sum().backward()


@pytest.mark.parametrize("shapes", [((6, 8), (8, 5)), ((2, 4, 3, 3), (4, 2, 3, 3))])
def test_a_layers_scale_is_the_references(shapes):
    """The reference has fp32 moments, so only powers of two are equal bit for bit."""
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(200):
        g, w = (
            (rng.standard_normal(s) * 2.0 ** rng.uniform(*sizes)).astype(np.float32)
            for s, sizes in zip(shapes, ((-45, 14), (-12, 4)), strict=True)
        )
        arrived = 2.0 ** rng.integers(-3, 13)
        wanted = rule.LayerScale().update(g, w, arrived)
        assert layer_scale(g, w, cumulative=arrived, u_min=6e-8) == wanted
        seen.add(float(wanted))
        if g.ndim == 2:
            l = rule.element_wise_range(g, w, 6e-8, U_MAX)
            found = layer_scale(g, w, element_wise=True, u_min=6e-8, power_of_two=False)
            assert found == pytest.approx(l, rel=3e-7)
    assert min(seen) < 1 and 16 in seen and len(seen) > 6


def test_a_join_is_the_references():
    """The published loop also tries the first scale below 1/8."""
    rng = np.random.default_rng(6)
    outcomes = []
    for _ in range(500):
        tags = list(2.0 ** rng.integers(-3, 9, rng.integers(2, 5)))
        tops = [t * 2.0 ** rng.integers(5, 22) for t in tags]
        try:
            outcomes.append(rule.join_scale(tops, tags, least=1 / 16))
        except ValueError:
            outcomes.append(None)
            with pytest.raises(ValueError, match="does not fit"):
                join_scales(tags, tops)
        else:
            assert join_scales(tags, tops) == outcomes[-1]
    assert None in outcomes and 1 / 16 in outcomes and max(filter(None, outcomes)) > 1


@pytest.mark.parametrize("options", [{"abs_range": True}, {"element_wise": True, "rescue": 0.7}])
@pytest.mark.parametrize("cast", [None, "normal", "lognormal"])
def test_other_ranges_and_a_cast_at_the_end_of_the_model_are_the_references(options, cast):
    """Only the cast's scale has the bounds 16 and 1024."""
    rng = np.random.default_rng(8)
    seen, ends = [], set()
    for exponent, start in ((-22, 1.0), (-22, 256.0), (-3, 2.0**11)):
        w = [grid(rng, (8, 8), 4) / 64 for _ in range(3)]
        scales = AdaptiveLossScaling(
            model := chain(w), "fp16", u_min=6e-8, cast=cast, start=start, **options
        )
        x = grid(rng, (4, 8), 3)
        outer = 2.0**exponent * rng.standard_normal((4, 8)).astype(np.float16)
        with scales:
            y = model(torch.from_numpy(x))
        (y * torch.from_numpy(outer)).sum().backward()
        end = start
        if cast:
            l = rule.cast_range(outer * start, 6e-8, U_MAX, cast == "lognormal")
            end *= float(rule.power_of_two(rule.bounded(l, start)))
        ends.add(end / start)
        active = [x]
        for one in w[:-1]:
            active.append(np.maximum(active[-1] @ one.T, 0.0))
        g, arrived = fp16(outer * end), end
        for i in (2, 1):
            if "rescue" in options:
                l = rule.element_wise_range(g, w[i], 6e-8, U_MAX, 0.7)
            else:
                l = rule.abs_range(g, w[i], 6e-8, U_MAX)
            l = below(l)
            found = scales.layers[2 - i]
            assert (found.arrived, found.scale, found.passed) == (arrived, l, arrived * l)
            seen.append(l)
            g = np.where(active[i] > 0, fp16(fp16(g * l) @ w[i]), 0.0)
            arrived *= l
        assert scales.layers[-1].arrived == arrived
    assert max(seen) > 16
    assert ends == {1.0} if cast is None else min(ends) < 1 < max(ends)


def test_a_casts_scale_is_kept_before_its_bounds():
    model, outer = chain([np.eye(2)]), torch.full((1, 2), 2.0**-20, dtype=torch.float64)
    outer[0, 0] *= -1
    scales = AdaptiveLossScaling(model, "fp16", cast="normal", every=2, u_min=6e-8)
    seen = []
    for start, size in ((512.0, 1.0), (1.0, 2.0**20), (1.0, 2.0**20)):
        scales.start = start
        with scales:
            y = model(torch.ones(1, 2, dtype=torch.float64))
        (y * outer * size).sum().backward()
        seen.append(scales.layers[0].arrived / start)
    wanted = rule.cast_range(512 * outer.numpy(), 6e-8, U_MAX)
    assert seen == [below(min(wanted, 2.0)), below(min(wanted, 16.0)), 1.0]


def test_three_passes_of_a_chain_are_the_references():
    """Kept scales, the first scale among the bounds, gradients stored in fp16."""
    rng = np.random.default_rng(7)
    w = [grid(rng, (8, 8), 4) / 4 for _ in range(4)]
    own = [rule.LayerScale(every=2) for _ in w]
    scales = AdaptiveLossScaling(model := chain(w), "fp16", u_min=6e-8, every=2, stored="fp16")
    seen = []
    for start, size in ((1.0, 1e-6), (256.0, 1e-3), (2.0**12, 1e-7)):
        x, outer = grid(rng, (4, 8), 3), size * rng.standard_normal((4, 8))
        scales.start = start
        model.zero_grad()
        with scales:
            y = model(torch.from_numpy(x))
        (y * torch.from_numpy(outer)).sum().backward()
        active = [x]
        for one in w[:-1]:
            active.append(np.maximum(active[-1] @ one.T, 0.0))
        g, arrived = fp16(outer * start), start
        layers = [m for m in model if isinstance(m, nn.Linear)]
        for i in reversed(range(len(w))):
            stored = rule.unscaled(fp16(g.T @ active[i]), arrived)
            assert np.array_equal(layers[i].weight.grad.numpy(), stored)
            if i:
                l = float(own[i].update(g, w[i], arrived))
                seen.append(l)
                g = np.where(active[i] > 0, fp16(fp16(g * l) @ w[i]), 0.0)
                arrived *= l
        assert [s.scale for s in scales.layers][:-1] == seen[-3:]
        assert scales.layers[-1].arrived == arrived
    assert min(seen) < 1 < max(seen)
