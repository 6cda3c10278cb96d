"""Whole models: attention and LSTM of the same parts, what matches, schedules, checkpoints, torch.compile."""

import copy
import io
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
import apscope.torch as at  # noqa: E402
from apscope.train import (  # noqa: E402
    Cast,
    LossScale,
    Recipe,
    Sum,
    Weights,
    Workers,
    quantize_model,
    recipes,
    register_module,
)

FP8 = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2")
IDENTITY = Recipe(input="fp32", weight="fp32", grad_output="fp32")


def net(norm=True):
    torch.manual_seed(1)
    layers = [nn.Conv2d(1, 4, 3, padding=1), *([nn.BatchNorm2d(4)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 64, 10))


def batch(step, size=16):
    g = torch.Generator().manual_seed(step)
    return torch.randn(size, 1, 8, 8, generator=g), torch.randint(0, 10, (size,), generator=g)


def sgd(model, rate=0.05):
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def train(quantized, first, last):
    for step in range(first, last):
        x, y = batch(step)
        quantized.step(F.cross_entropy(quantized.model(x), y))


def gradients(model, *inputs):
    given = [t.clone().requires_grad_() for t in inputs]
    out = model(*given)
    out = out[0] if isinstance(out, tuple) else out
    names = [n for n, p in model.named_parameters()]
    weight = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    grads = torch.autograd.grad((out * weight).sum(), [*given, *model.parameters()])
    return out.detach(), {f"input{i}": g for i, g in enumerate(grads[: len(given)])} | dict(
        zip(names, grads[len(given) :])
    )


def by_hand(x, w, bias=None):
    """A product of the FP8 recipe with sums in fp32, of apscope.torch's functions."""
    y = at.linear(at.quantize(x, "e4m3fn", overflow="saturate"), at.quantize(w, "e4m3fn", overflow="saturate"), format="fp32", backward="fp32")  # fmt: skip
    y = rounds_gradient(y)
    return y if bias is None else y + bias


def rounds_gradient(y):
    return at.quantize(y, "fp32", backward="e5m2", overflow="saturate")


def product(a, b):
    a, b = (at.quantize(t, "e4m3fn", overflow="saturate") for t in (a, b))
    return rounds_gradient(at.matmul(a, b, "fp32", backward="fp32"))


SUMMED = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2", accumulate="fp32")


# Attention and LSTM -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    dict(), dict(batch_first=True), dict(batch_first=True, kdim=5, vdim=7), dict(bias=False),
])  # fmt: skip
def test_attention_is_pytorchs_where_nothing_is_rounded(options):
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(12, 3, **options)
    model = copy.deepcopy(plain)
    quantize_model(model, IDENTITY, say=None)
    first = options.get("batch_first", False)
    q = torch.randn(2, 6, 12) if first else torch.randn(6, 2, 12)
    k = torch.randn(*q.shape[:2], options.get("kdim", 12))
    v = torch.randn(*q.shape[:2], options.get("vdim", 12))
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    floats = torch.randn(2 * 3, 6, 6)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    for more in (
        {}, {"attn_mask": mask}, {"attn_mask": floats}, {"key_padding_mask": padding},
        {"attn_mask": mask, "is_causal": True, "need_weights": False},
        {"average_attn_weights": False},
    ):  # fmt: skip
        for a, b in zip(plain(q, k, v, **more), model(q, k, v, **more)):
            assert (a is None and b is None) or torch.allclose(a, b, atol=1e-5)
    if not first:
        alone = plain(q[:, 0], k[:, 0], v[:, 0]), model(q[:, 0], k[:, 0], v[:, 0])
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*alone))
    one, other = gradients(plain, q, k, v)[1], gradients(model, q, k, v)[1]
    assert all(torch.allclose(one[n], other[n], atol=1e-4) for n in one)


def test_attention_has_the_bits_of_its_parts():
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(12, 3, batch_first=True)
    model = copy.deepcopy(plain)
    quantized = quantize_model(model, SUMMED, say=None)
    names = {name for name, _, _ in quantized.uses}
    assert names == {":query", ":key", ":value", ":scores", ":values", "out_proj"}

    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = plain

        def forward(self, x):
            weights, biases = self.m.in_proj_weight.chunk(3), self.m.in_proj_bias.chunk(3)
            q, k, v = (
                by_hand(x.reshape(-1, 12), w, b).reshape(2, 6, 3, 4).transpose(1, 2)
                for w, b in zip(weights, biases)
            )
            shares = product(q / 2.0, k.mT).softmax(-1)
            mixed = product(shares, v).transpose(1, 2).reshape(-1, 12)
            return by_hand(mixed, self.m.out_proj.weight, self.m.out_proj.bias).reshape(2, 6, 12)

    x = torch.randn(2, 6, 12)
    given, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    a, b = model(given, given, given)[0], ByHand()(other)
    assert torch.equal(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    assert torch.equal(model.in_proj_weight.grad, plain.in_proj_weight.grad)
    assert torch.equal(model.out_proj.weight.grad, plain.out_proj.weight.grad)
    assert torch.allclose(given.grad, other.grad, rtol=1e-5, atol=1e-6)  # three gradients are added


@pytest.mark.parametrize("options", [
    dict(), dict(batch_first=True, num_layers=2, bidirectional=True), dict(bias=False), dict(num_layers=2),
])  # fmt: skip
def test_lstm_is_pytorchs_where_nothing_is_rounded(options):
    torch.manual_seed(0)
    plain = nn.LSTM(5, 6, **options)
    model = copy.deepcopy(plain)
    quantize_model(model, IDENTITY, say=None)
    x = torch.randn(4, 3, 5)
    (a, ends), (b, others) = plain(x), model(x)
    assert torch.allclose(a, b, atol=1e-6)
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(ends, others))
    batch = 4 if options.get("batch_first") else 3
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    hx = torch.randn(count, batch, 6), torch.randn(count, batch, 6)
    assert torch.allclose(plain(x, hx)[0], model(x, hx)[0], atol=1e-6)
    alone = x[0] if options.get("batch_first") else x[:, 0]
    assert torch.allclose(plain(alone)[0], model(alone)[0], atol=1e-6)
    one, other = gradients(plain, x)[1], gradients(model, x)[1]
    assert all(torch.allclose(one[n], other[n], atol=1e-5) for n in one)


def test_lstm_has_the_bits_of_its_parts():
    torch.manual_seed(0)
    plain = nn.LSTM(5, 6)
    model = copy.deepcopy(plain)
    quantize_model(model, SUMMED, say=None)
    x = torch.randn(4, 3, 5)
    y = model(x)[0]
    given = by_hand(x.reshape(-1, 5), plain.weight_ih_l0, plain.bias_ih_l0).reshape(4, 3, 24)
    h = c = torch.zeros(3, 6)
    found = []
    for entry in given.unbind(0):
        gates = entry + by_hand(h, plain.weight_hh_l0, plain.bias_hh_l0)
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    other = torch.stack(found)
    assert torch.equal(y, other)
    y.square().sum().backward()
    other.square().sum().backward()
    for name in ("weight_ih_l0", "weight_hh_l0"):
        assert torch.equal(getattr(model, name).grad, getattr(plain, name).grad)


def test_norms_and_embeddings_are_rounded_where_asked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    plain = copy.deepcopy(model)
    quantized = quantize_model(
        model,
        Recipe(input="e4m3fn", weight="e4m3fn", output="e4m3fn", grad_output="e5m2", also=("Embedding", "LayerNorm")),
        say=None,
    )  # fmt: skip
    assert {n for n, _, _ in quantized.uses} == {"0", "1", "2"}
    tokens = torch.randint(0, 11, (4, 6))

    def q(t):
        return at.quantize(t, "e4m3fn", overflow="saturate")

    def out(t):
        return at.quantize(t, "e4m3fn", backward="e5m2", overflow="saturate")

    a = out(F.embedding(tokens, q(plain[0].weight)))
    b = out(F.layer_norm(q(a), (8,), q(plain[1].weight), plain[1].bias))
    y = out(rounds_gradient(q(b) @ q(plain[2].weight).T + plain[2].bias))
    assert torch.equal(model(tokens), y)
    model(tokens).square().sum().backward()
    y.square().sum().backward()
    assert torch.allclose(model[0].weight.grad, plain[0].weight.grad, rtol=1e-5, atol=1e-7)
    norm = nn.BatchNorm2d(3, momentum=None)
    other = copy.deepcopy(norm)
    quantize_model(norm, Recipe(input="fp32", also=("BatchNorm2d",)), say=None)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        assert torch.equal(norm(x), other(x))
    assert torch.equal(norm.running_var, other.running_var)
    assert torch.equal(norm.eval()(x), other.eval()(x))


def test_a_transformer_layers_fast_path_does_not_pass_by():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2
    ).eval()
    x = torch.randn(2, 5, 16)
    plain = model(x)
    quantize_model(model, FP8, say=None)
    slow = model(x)
    with torch.no_grad():
        fast = model(x)
    assert torch.equal(slow, fast) and not torch.allclose(plain, slow, atol=1e-4)


# What matches -----------------------------------------------------------------------------------


def test_it_says_what_matched_and_a_pattern_without_a_match_is_an_error():
    said = []
    quantized = quantize_model(net(), FP8, say=said.append)
    assert said == [str(quantized)]
    assert said[0].splitlines() == [
        "2 layers are quantized (2,610 parameters), 1 not: 1 (BatchNorm2d)",
        "  0: input e4m3fn, weight e4m3fn, grad_output e5m2",
        "  4: input e4m3fn, weight e4m3fn, grad_output e5m2",
    ]
    for recipe, sentence in (
        (Recipe(input="e4m3fn", where={"head*": None}), "'head\\*' matches no layer .* it has 0, 1, 4"),
        (Recipe(input="e4m3fn", also=("LayerNorm",)), "'LayerNorm' matches no layer"),
        (Recipe(), "quantizes nothing"),
        (lambda name, module, role: None, "quantizes nothing"),
        ("fp9", "there is no recipe 'fp9'; there are mixed_precision"),
        ({5: FP8}, "begins with step 0"),
        (Recipe(input=Cast("nvfp4", hadamard=True)), "Hadamard"),
        (lambda name, module, role: "fp9" if role == "output" else None, "0, output: 'fp9' is no float format"),
        (lambda name, module, role: "fp64" if role == "output" else None, "0, output: .* beyond fp32"),
    ):  # fmt: skip
        model = net()
        with pytest.raises(ValueError, match=sentence):
            quantize_model(model, recipe, say=None)
        assert type(model[0]) is nn.Conv2d
    with pytest.raises(ValueError, match="quantized already"):
        quantize_model(quantized.model, FP8, say=None)
    with pytest.raises(ValueError, match="need optimizer="):
        quantize_model(net(), Recipe(weight_update="bf16"), say=None)
    with pytest.raises(TypeError, match="float64"):
        quantize_model(net().double(), FP8, say=None)
    with pytest.raises(TypeError, match="bfloat16.*leave out autocast"):
        quantized.model(batch(0)[0].bfloat16())


def test_patterns_the_ends_and_functions_choose():
    def three():
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))

    def formats(recipe):
        found = quantize_model(three(), recipe, say=None).uses
        return {name: str(cast) for name, role, cast in found if role == "input"}

    inside = Recipe(input="e5m2")
    assert formats(Recipe(input="e4m3", where={"first": None, "last": inside})) == {"1": "e4m3", "2": "e5m2"}  # fmt: skip
    assert formats(Recipe(input="e4m3", where={"[01]": inside})) == {"0": "e5m2", "1": "e5m2", "2": "e4m3"}  # fmt: skip
    assert formats(
        lambda name, module, role: "e4m3" if name == "1" and role.endswith("input") else None
    ) == {"1": "e4m3"}
    asked = set()

    def ask(name, module, role):
        asked.add((type(module).__name__, role))
        return "fp16" if role == "output" else None

    quantize_model(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), ask, say=None)
    assert {r for kind, r in asked if kind == "Linear"} >= {
        "forward.input", "input_gradient.weight", "weight_gradient.grad_output", "forward.sum", "weight_update",
    }  # fmt: skip
    assert ("LayerNorm", "grad_output") in asked


def test_a_module_of_ones_own_by_registration():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            return torch.sigmoid(x @ self.weight.T) * x

    register_module(
        Gate, lambda m, parts, x: torch.sigmoid(parts["mix"].linear(x, m.weight)) * x, {"mix": "product"}
    )  # fmt: skip
    torch.manual_seed(0)
    model = nn.Sequential(Gate())
    x = torch.randn(3, 4)
    w = model[0].weight
    expected = torch.sigmoid(at.quantize(x, "e4m3fn") @ at.quantize(w, "e4m3fn").T) * x
    quantized = quantize_model(model, FP8, say=None)
    assert [name for name, _, _ in quantized.uses] == ["0:mix"] * 3
    assert torch.equal(model(x), expected)

    class Own(nn.Linear):  # computes something of its own: not a Linear as far as recipes go
        def forward(self, x):
            return super().forward(x) + 1

    with pytest.raises(ValueError, match="quantizes nothing"):
        quantize_model(nn.Sequential(Own(2, 2)), FP8, say=None)
    for wrong, error in ((int, TypeError), (Gate, ValueError)):
        with pytest.raises(error):
            register_module(wrong, lambda m, parts, x: x, {"": "square"})


def test_modules_that_cannot_be_quantized_are_refused_in_a_sentence():
    for model, sentence in (
        (nn.LSTM(4, 4, proj_size=2), "proj_size"),
        (nn.MultiheadAttention(4, 2, add_zero_attn=True), "add_zero_attn"),
        (nn.Embedding(4, 4, max_norm=1.0), "max_norm"),
        (nn.Embedding(4, 4, sparse=True), "sparse"),
    ):
        recipe = Recipe(input="e4m3fn", weight="e4m3fn", also=("Embedding",) if isinstance(model, nn.Embedding) else ())  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            quantize_model(nn.Sequential(model), recipe, say=None)
    model = nn.LSTM(4, 4)
    quantize_model(model, FP8, say=None)
    with pytest.raises(TypeError, match="pad the sequences"):
        model(nn.utils.rnn.pack_sequence([torch.randn(3, 4)]))


# State dicts, checkpoints, schedules -------------------------------------------------------------


def test_state_dicts_load_both_ways_and_remove_undoes_it():
    plain, model = net(), net()
    quantized = quantize_model(model, FP8, say=None)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert isinstance(model[0], nn.Conv2d) and "Quantized" in type(model[0]).__name__
    model.load_state_dict(plain.state_dict())
    plain.load_state_dict(model.state_dict())
    x = batch(0)[0]
    assert not torch.equal(model(x), plain(x))
    other = copy.deepcopy(model)
    assert torch.equal(other(x), model(x))
    quantized.remove()
    plain.load_state_dict(model.state_dict())
    assert type(model[0]) is nn.Conv2d and torch.equal(model(x), plain(x))


EVERYTHING = {
    "drawn": Recipe(input=Cast("e4m3fn", rounding="stochastic"), grad_output=Cast("e5m2", rounding="stochastic", overflow="ieee"),
        weight_update=Weights("bf16", "stochastic"), loss_scale=LossScale(2.0**10, interval=4)),
    "delayed": recipes()["te_delayed"],
    "nvfp4": recipes()["nvfp4"],
    "sums": Recipe(input="e4m3fn", accumulate=Sum("bf16", rounding="stochastic"), weight_update=Weights("bf16", "kahan")),
    "schedule": {0: recipes()["te_delayed"], 3: Recipe(grad_output=Cast("e5m2", rounding="stochastic"))},
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_resumed_run_has_the_same_bits(name):
    def start():
        model = net(norm=False) if name != "schedule" else net()
        return quantize_model(model, EVERYTHING[name], optimizer=sgd(model), seed=7, say=None)

    whole, first, second = start(), start(), start()
    train(whole, 0, 8)
    train(first, 0, 4)
    stream = io.BytesIO()
    torch.save(first.state_dict(), stream)
    stream.seek(0)
    second.load_state_dict(torch.load(stream, weights_only=True))
    train(second, 4, 8)
    for a, b in zip(whole.model.state_dict().values(), second.model.state_dict().values()):
        assert torch.equal(a, b)
    assert whole.loss_scale == second.loss_scale and second.steps == 8
    other = quantize_model(net(), Recipe(input="e3m4"), say=None)
    with pytest.raises(ValueError, match="another recipe"):
        other.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="made by state_dict"):
        other.load_state_dict({})


def test_a_schedule_changes_the_formats_at_its_steps():
    """The last steps in fp32 are those of an fp32 run from the same weights."""
    model, plain = net(), net()
    optimizer = sgd(model)
    quantized = quantize_model(model, {0: FP8, 3: None}, optimizer=optimizer, say=None)
    assert "from step 3:" in str(quantized)
    train(quantized, 0, 3)
    other = sgd(plain)
    plain.load_state_dict(model.state_dict())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert quantized.uses == []
    train(quantized, 3, 5)
    for step in range(3, 5):
        x, y = batch(step)
        F.cross_entropy(plain(x), y).backward()
        other.step()
        other.zero_grad()
    for a, b in zip(model.state_dict().values(), plain.state_dict().values()):
        assert torch.equal(a, b)


def test_loss_scales_skip_grow_and_keep_their_minimum():
    model = net(norm=False)
    rule = LossScale(2.0**15, interval=2, minimum=((0, 2.0**13), (4, 2.0**14)))
    quantized = quantize_model(model, Recipe(input="e4m3fn", loss_scale=rule), optimizer=sgd(model), say=None)  # fmt: skip
    before = {n: p.clone() for n, p in model.named_parameters()}
    scales, skipped = [], []
    for step in range(8):
        x, y = batch(step)
        loss = F.cross_entropy(model(x), y)
        if step < 4:
            loss = loss * float("inf")
        scales.append(quantized.loss_scale)
        skipped.append(not quantized.step(loss))
        if step == 3:
            assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert skipped == [True] * 4 + [False] * 4
    assert scales == [2.0**k for k in (15, 14, 13, 13, 14, 14, 15, 15)]


def test_weights_are_kept_where_the_recipe_says():
    model = net(norm=False)
    recipe = Recipe(weight_update=Weights("bf16", "nearest"), where={"first": None})
    quantized = quantize_model(model, recipe, optimizer=sgd(model), say=None)
    train(quantized, 0, 2)
    for module, kept in ((model[0], False), (model[3], True)):
        for p in module.parameters():
            assert torch.equal(at.quantize(p.detach(), "bf16"), p) == kept
    with pytest.raises(ValueError, match="weights are in bf16 nearest and fp16 nearest"):
        quantize_model(
            net(), Recipe(weight_update="bf16", where={"last": Recipe(weight_update="fp16")}),
            optimizer=sgd(net()), say=None,
        )  # fmt: skip


def test_a_loss_scale_alone_changes_no_bit():
    found = []
    for rule in (None, LossScale(2.0**12)):
        model = net(norm=False)
        quantized = quantize_model(model, Recipe(input="e4m3fn", loss_scale=rule), optimizer=sgd(model), say=None)  # fmt: skip
        train(quantized, 0, 3)
        found.append(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(*(f.values() for f in found)))


@pytest.mark.parametrize("name", list(recipes()))
def test_every_preset_trains_and_names_its_source(name):
    recipe = recipes()[name]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))  # fmt: skip
    quantized = quantize_model(model, name, optimizer=sgd(model), say=None)
    x, y = batch(0)
    losses = []
    for _ in range(12):
        loss = F.cross_entropy(model(x), y)
        losses.append(float(loss.detach()))
        quantized.step(loss)
    assert losses[-1] < losses[0] and np.isfinite(losses).all()
    assert len(recipe.about) > 40


# With others ------------------------------------------------------------------------------------


def test_torch_compile_gives_the_same_bits():
    model, other = net(norm=False), net(norm=False)
    quantize_model(model, FP8, say=None)
    quantize_model(other, FP8, say=None)
    compiled = torch.compile(other, backend="aot_eager")
    x, y = batch(0)
    for m in (model, compiled):
        F.cross_entropy(m(x), y).backward()
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a.grad, b.grad)


def test_it_mixes_with_an_exchange_and_refuses_vmap_in_a_sentence():
    found = []
    for _ in range(2):
        model = net(norm=False)
        quantized = quantize_model(model, FP8, say=None)
        workers = Workers(model, F.cross_entropy, sgd(model), workers=4, exchange="aps:e5m2")
        assert not workers.batched
        for step in range(2):
            workers.step(*batch(step))
            quantized.advance()
        found.append(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(*(f.values() for f in found)))
    with pytest.raises(NotImplementedError, match="batched=False"):
        Workers(model, F.cross_entropy, sgd(model), workers=4, batched=True).step(*batch(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(batch(0)[0]).dtype == torch.float32


# Statistics -------------------------------------------------------------------------------------


def test_statistics_of_every_use_are_those_of_cast_statistics():
    model = net(norm=False)
    quantized = quantize_model(model, FP8, optimizer=sgd(model), say=None)
    quantized.observe(2)
    weight = model[0].weight.detach().clone()
    train(quantized, 0, 3)
    table = quantized.statistics
    assert sorted(set(table.step)) == [0, 2] and len(table) == 12
    row = table[(table.step == 0) & (table.part == "0") & (table.role == "weight")].iloc[0]
    told = apscope.cast_statistics(weight, "e4m3fn", overflow="saturate")
    for column in ("count", "nonzero", "underflow_rate", "saturated"):
        assert row[column] == getattr(told, column), column
    for column in ("sqnr_db", "nmse", "cosine", "relative_bias"):
        assert row[column] == pytest.approx(getattr(told, column), rel=1e-9), column


def test_blocks_saturate_by_their_own_scale():
    from apscope.train._quantized.observe import _measured

    x = torch.zeros(2, 32)
    x[0, :3] = torch.tensor([500.0, 449.0, 1.0])  # the floor rule: scale 1, largest 448
    x[1, 0] = 2.0**-140
    cast = Cast("mxfp8_e4m3")
    y = torch.as_tensor(apscope.quantize_blocks(x, "mxfp8_e4m3"))
    found = _measured(cast, x, y, -1, (0, -1))
    assert found["saturated"] == 2 and found["scale_largest"] == 1.0
    assert found["wire_bits"] == 64 * 8 and found["side_bits"] == 2 * 8
    tile = Cast("mxfp8_e4m3", tile=(2, 16))
    assert _measured(tile, x, y, -1, (0, -1))["saturated"] == 2


def test_results_are_summarized_compared_and_reported(tmp_path):
    def observed(recipe):
        model = net(norm=False)
        quantized = quantize_model(model, recipe, optimizer=sgd(model), say=None)
        quantized.observe(1)
        train(quantized, 0, 3)
        return quantized.results()

    fine, coarse = observed(FP8), observed(Recipe(input="e3m0", weight="e3m0", grad_output="e3m0"))
    one, other = fine.summary().iloc[0], coarse.summary().iloc[0]
    assert 0 < one.step_nmse < other.step_nmse
    for results, name in ((fine, "fine"), (coarse, "coarse")):
        results.save(tmp_path / name)
    for words in (
        ["report", "fine", "-o", "page.html"],
        ["compare", "fine", "coarse", "--topology", "wire"],
        ["check", "fine"],
    ):
        run = subprocess.run([sys.executable, "-m", "apscope", *words], cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
        assert run.returncode == 0, run.stderr
    assert "3.grad_output" in (tmp_path / "page.html").read_text()
    layers = fine.by("layer")
    assert set(layers.tensor if "tensor" in layers else layers.layer) == {
        f"{n}.{r}" for n in "03" for r in ("input", "weight", "grad_output")
    }


def test_operands_are_recorded_as_a_trace_that_replays(tmp_path):
    model = net(norm=False)
    quantized = quantize_model(model, FP8, optimizer=sgd(model), say=None)
    quantized.observe(1)
    with quantized.record(tmp_path / "operands", every=2):
        train(quantized, 0, 4)
    trace = apscope.open_trace(tmp_path / "operands")
    assert trace.steps == (0, 2) and "0.input" in trace.tensors
    assert np.array_equal(trace.read(2, "0.input"), batch(2)[0].numpy())
    replayed = apscope.replay(trace, ["none:e4m3fn", "none:e5m2"], topology=["exact"]).frame
    row = replayed[(replayed.step == 2) & (replayed.tensor == "3.weight") & (replayed.scheme == "none:e4m3fn") & (replayed.stage == "wire")].iloc[0]  # fmt: skip
    live = quantized.statistics
    mine = live[(live.step == 2) & (live.part == "3") & (live.role == "weight")].iloc[0]
    assert row.sqnr_db == pytest.approx(mine.sqnr_db, rel=1e-9)
    plan = apscope.recommend(trace, ["none:e4m3fn", "none:e5m2", "none:bf16"], max_volume=0.3)
    assert plan.scheme


def test_debug_step_prints_the_worst_and_changes_nothing(capsys):
    def run(debug):
        model = net()
        quantized = quantize_model(model, EVERYTHING["schedule"], optimizer=sgd(model), say=None)
        for step in range(5):
            x, y = batch(step)
            if debug:
                found = quantized.debug_step(lambda: F.cross_entropy(model(x), y), worst=4)
                assert list(found.sqnr_db) == sorted(found.sqnr_db)
            quantized.step(F.cross_entropy(model(x), y))
        return model.state_dict()

    plain = run(False)
    assert capsys.readouterr().out == ""
    watched = run(True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("scaled loss ") and "the worst 4 of 6 uses by SQNR" in lines[0]
    assert "delayed_scaling:e5m2" in "\n".join(lines[:7])
    assert all(torch.equal(a, b) for a, b in zip(plain.values(), watched.values()))
