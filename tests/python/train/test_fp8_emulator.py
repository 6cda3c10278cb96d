"""FP8 training as its author's emulator has it, and HFP8's third reading, against references."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import apscope  # noqa: E402
from apscope.torch import LowPrecisionWeights  # noqa: E402
from apscope.train import Cast, Recipe, quantization, quantize_model, recipes  # noqa: E402
from apscope.train._quantized.uses import _float_cast  # noqa: E402
from tests.reference import fp8_emulator as rule  # noqa: E402
from tests.reference.random_words import QUANTIZE, random_integers, words_of  # noqa: E402

SEED = 7


def numbers(low, high, n=20_000):
    """fp32 numbers of all exponents from low to high, half of them fp16 numbers, and ends."""
    rng = np.random.default_rng(3)
    x = (rng.choice([-1, 1], n) * 2.0 ** rng.uniform(low, high, n)).astype(np.float32)
    with np.errstate(over="ignore"):
        x[::2] = x[::2].astype(np.float16)
    ends = [0.0, 65519.9, 65520.0, 61440.0, 61439.0, 57344.0, 2.0**-14, 2.0**-17, 30.0, 31.0, 32.0]
    return np.concatenate([x, ends, [-e for e in ends], [np.inf, -np.inf, np.nan]]).astype(
        np.float32
    )


def words(seed, n, bits):
    return np.array(random_integers(words_of(seed), range(n), bits, QUANTIZE), np.int64)


def cast(spec, x, seed=None):
    how = {"projection": spec.projection} | ({} if seed is None else {"seed": seed})
    return _float_cast(spec, torch.from_numpy(x), how).numpy()


def test_casts_have_the_emulators_bits():
    """To fp16 first; subnormal numbers to nearest in both modes; overflows are infinite."""
    recipe, x = recipes()["fp8_training"], numbers(-28, 17)
    nearest = cast(recipe.input, x)
    drawn = cast(recipe.grad_output, x, SEED)
    np.testing.assert_array_equal(nearest, rule.e5m2(x))
    np.testing.assert_array_equal(drawn, rule.e5m2(x, words(SEED, x.size, 8)))
    small = np.abs(x) < 2.0**-14
    assert np.array_equal(drawn[small], nearest[small]) and (drawn != nearest).mean() > 0.1
    assert np.isinf(nearest[np.abs(x) == 61440]).all()
    # The double rounding shows, and so do the draws below the smallest normal number.
    plain = Cast("e5m2", overflow="ieee")
    assert (nearest != cast(plain, x))[np.isfinite(x)].any()
    everywhere = Cast("e5m2", rounding="stochastic", overflow="ieee", random_bits=8, through="fp16")
    assert (drawn != cast(everywhere, x, SEED))[small].any()


def test_which_tensors_are_rounded_how():
    """The reference's table of the emulator's defaults."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = quantization(quantize_model(model, "fp8_training", optimizer=optimizer, say=None))
    names = {
        "input": "input", "weight": "weight", "output": "output", "grad_input": "input_gradient",
        "grad_output": "output_gradient", "grad_weight": "weight_gradient",
    }  # fmt: skip
    found = {}
    for part, role, spec in training.uses:
        assert part == "1" and str(spec.format) == "e5m2" and str(spec.through) == "fp16"
        nearest = spec.rounding == "ties_to_even"
        assert nearest or (spec.rounding, spec.random_bits) == ("stochastic_normal", 8)
        found[names[role]] = "nearest" if nearest else "stochastic"
    assert found == rule.TENSORS
    assert training.optimizer.update == "stochastic_normal" and training.loss_scale == 2.0**16


def test_a_layers_passes_by_hand():
    """All roundings to nearest: sums of e5m2 products are exact in fp32."""
    rng = np.random.default_rng(4)
    w, x, outer = (
        (scale * rng.standard_normal(shape)).astype(np.float32)
        for scale, shape in ((1.0, (6, 5)), (1.0, (4, 5)), (1e-3, (4, 6)))
    )
    model = nn.Sequential(nn.Linear(5, 6, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.from_numpy(w))
    recipe = recipes()["fp8_training_nearest"]
    plain = Recipe(**{t: getattr(recipe, t) for t in rule_tensors()})
    quantize_model(model, plain, say=None)
    inputs = torch.from_numpy(x).requires_grad_()
    y = model(inputs)
    (y * torch.from_numpy(outer)).sum().backward()
    q = rule.e5m2
    exact = [a.astype(np.float64) for a in (q(x), q(w), q(outer))]
    wanted = [exact[0] @ exact[1].T, exact[2] @ exact[1], exact[2].T @ exact[0]]
    for found, sums in zip((y.detach(), inputs.grad, model[0].weight.grad), wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), q(sums.astype(np.float32)))


def rule_tensors():
    return ("input", "weight", "output", "grad_output", "grad_input", "grad_weight")


def test_master_weights_are_drawn_where_normal():
    """13 random bits of the 32 decide; the emulator rounds subnormal numbers to nearest."""
    x = numbers(-26, 3, 4000)[:4000]
    p = nn.Parameter(torch.zeros(x.size))
    kept = LowPrecisionWeights(
        torch.optim.SGD([p], lr=1.0), "fp16", update="stochastic_normal", seed=SEED
    )
    for step in range(2):
        with torch.no_grad():
            p.zero_()
        p.grad = torch.from_numpy(-x)
        kept.step()
        seed = apscope.Draws(SEED, step).next()
        drawn = rule.master(x, words(seed, x.size, 32) >> 19)
        normal = np.abs(x) >= 2.0**-14
        wanted = np.where(normal, drawn, x.astype(np.float16))
        np.testing.assert_array_equal(p.detach().numpy(), wanted)
    assert (wanted != x.astype(np.float16))[normal].mean() > 0.1 and (~normal).sum() > 100


def test_the_third_reading_of_hfp8_has_its_values():
    """2^-11 is a value, what rounds below it is 0, the largest is 30, infinities pass."""
    spec = recipes()["hfp8_flush"].input
    x = numbers(-14, 7)
    grid = 2.0 ** np.arange(-13, 7)[:, None] * (1 + np.arange(0, 8, 1 / 64) / 8)
    x = np.concatenate([x, grid.ravel().astype(np.float32)])
    found = cast(spec, x)
    np.testing.assert_array_equal(found, rule.without_subnormals(x))
    values = np.unique(np.abs(found[np.isfinite(found)]))
    assert values[0] == 0 and values[1] == 2.0**-11 and values[-1] == 30 and values.size == 129
    # No underflow rule of one cast has them: half a step below 2^-11 rounds up or stays a value.
    just_below = np.array([2.0**-11 * (1 - 2.0**-4)], np.float32)
    f = apscope.FloatFormat(exponent_bits=5, mantissa_bits=3, bias=12)
    assert cast(spec, just_below) == 0 and f.smallest_normal == 2.0**-11
    assert apscope.quantize(just_below, f, underflow="flush_result") == 2.0**-11


@pytest.mark.parametrize("name", ["hfp8_flush", "ibm8"])
def test_presets_read_elsewhere_train(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    training = quantization(quantize_model(model, name, optimizer=optimizer, say=None))
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(x), y)
        losses.append(loss.item())
        assert training.step(loss)
    assert losses[-1] < 0.8 * losses[0]
    formats = {(part, role): str(spec.format) for part, role, spec in training.uses}
    if name == "ibm8":
        assert formats["0", "input"] == formats["3", "output"] == "e6m9"
        assert formats["2", "input"] == formats["0", "grad_output"] == "e5m2"
    else:
        assert formats["2", "input"] == "e5m3b26" and formats["3", "input"] == "e6m9"


def test_parts_of_a_cast_are_checked_and_named():
    spec = Cast("e5m2", rounding="stochastic_normal", through="fp16", flush_below=0.5)
    assert str(spec) == "e5m2 stochastic normal through fp16 0 below 0.5" and spec.draws
    for words_, options in [
        ("through=fp16 needs a float format", {"format": "mxfp8_e4m3", "through": "fp16"}),
        ("needs a float format", {"format": "mxfp4", "rounding": "stochastic_normal"}),
        ("flush_below=0.1 needs", {"format": "mxfp4", "flush_below": 0.1}),
        ("flush_below=-1", {"format": "e5m2", "flush_below": -1}),
        ("fp17", {"format": "e5m2", "through": "fp17"}),
    ]:
        with pytest.raises(ValueError, match=words_):
            Cast(**options)
    for value in ("a", True):
        with pytest.raises(TypeError, match="flush_below=.* must be a number"):
            Cast("e5m2", flush_below=value)
    assert Cast("e5m2", through=torch.float16) == Cast("e5m2", through="fp16")
