"""Whole models: matches, state dicts, checkpoints, schedules, loss scales, torch.compile, an
exchange."""

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope.torch as at  # noqa: E402
from apscope.train import (  # noqa: E402
    Cast,
    LossScale,
    Recipe,
    Weights,
    Workers,
    quantization,
    quantize_model,
    recipes,
    register_module,
)
from tests.python.train.quantized_cases import EVERYTHING, FP8, batch, net, quantized_of, sgd, train  # noqa: E402

# Matches -----------------------------------------------------------------------------------


def test_it_says_what_matched_and_a_pattern_without_a_match_is_an_error():
    said = []
    quantized = quantization(quantize_model(net(), FP8, say=said.append))
    assert said == [str(quantized)]
    assert said[0].splitlines() == [
        "2 layers are quantized (2,610 parameters), 1 not: 1 (BatchNorm2d)",
        "  0: input e4m3fn, weight e4m3fn, grad_output e5m2",
        "  4: input e4m3fn, weight e4m3fn, grad_output e5m2",
    ]
    for recipe, sentence in (
        (
            Recipe(input="e4m3fn", where={"head*": None}),
            "'head\\*' matches no layer .* it has 0, 1, 4",
        ),
        (Recipe(input="e4m3fn", also=("LayerNorm",)), "'LayerNorm' matches no layer"),
        (Recipe(), r"quantizes nothing.*which has \w"),
        (lambda name, module, role: None, "quantizes nothing"),
        ("fp9", "there is no recipe 'fp9'; use one of mixed_precision"),
        ({5: FP8}, "must begin with 0"),
        (Recipe(input=Cast("nvfp4", hadamard=True)), "Hadamard"),
        (
            lambda name, module, role: "fp9" if role == "output" else None,
            "0, output: 'fp9' is not a float format",
        ),
        (Recipe(input="fractrain:bits=6/6/8/8"), "0, input: fractrain needs the loss"),
        (
            lambda name, module, role: "fp64" if role == "output" else None,
            "0, output: .* beyond fp32",
        ),
    ):
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
        found = quantization(quantize_model(three(), recipe, say=None)).uses
        return {name: str(cast) for name, role, cast in found if role == "input"}

    inside = Recipe(input="e5m2")
    assert formats(Recipe(input="e4m3", where={"first": None, "last": inside})) == {"1": "e4m3",
        "2": "e5m2"}  # fmt: skip
    assert formats(Recipe(input="e4m3", where={"[01]": inside})) == {"0": "e5m2", "1": "e5m2",
        "2": "e4m3"}  # fmt: skip
    assert formats(
        lambda name, module, role: "e4m3" if name == "1" and role.endswith("input") else None
    ) == {"1": "e4m3"}
    asked = set()

    def ask(name, module, role):
        asked.add((type(module).__name__, role))
        return "fp16" if role == "output" else None

    quantize_model(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), ask, say=None)
    assert {r for kind, r in asked if kind == "Linear"} >= {
        "forward.input", "input_gradient.weight", "weight_gradient.grad_output", "forward.sum",
        "weight_update",
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
        Gate,
        lambda m, parts, x: torch.sigmoid(parts["mix"].linear(x, m.weight)) * x,
        {"mix": "product"},
    )
    torch.manual_seed(0)
    model = nn.Sequential(Gate())
    x = torch.randn(3, 4)
    w = model[0].weight
    expected = torch.sigmoid(at.quantize(x, "e4m3fn") @ at.quantize(w, "e4m3fn").T) * x
    quantized = quantization(quantize_model(model, FP8, say=None))
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
        recipe = Recipe(input="e4m3fn", weight="e4m3fn",
                        also=("Embedding",) if isinstance(model, nn.Embedding) else ())  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            quantize_model(nn.Sequential(model), recipe, say=None)
    model = nn.LSTM(4, 4)
    quantize_model(model, FP8, say=None)
    with pytest.raises(TypeError, match="pad the sequences"):
        model(nn.utils.rnn.pack_sequence([torch.randn(3, 4)]))


# State dicts, checkpoints, schedules -------------------------------------------------------------


def test_state_dicts_load_both_ways_and_remove_undoes_it():
    plain, model = net(), net()
    quantized = quantization(quantize_model(model, FP8, say=None))
    assert list(model.state_dict()) == list(plain.state_dict())
    assert isinstance(model[0], nn.Conv2d) and "Quantized" in type(model[0]).__name__
    model.load_state_dict(plain.state_dict())
    plain.load_state_dict(model.state_dict())
    x = batch(0)[0]
    assert not torch.equal(model(x), plain(x))
    other = copy.deepcopy(model)
    assert torch.equal(other(x), model(x))
    kept = nn.Sequential(nn.Linear(4, 4))
    quantize_model(kept, "te_delayed", say=None)
    rows = torch.randn(2, 4)
    kept(rows)
    assert torch.equal(copy.deepcopy(kept)(3 * rows), kept(3 * rows))
    quantized.remove()
    plain.load_state_dict(model.state_dict())
    assert type(model[0]) is nn.Conv2d and torch.equal(model(x), plain(x))


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_resumed_run_has_the_same_bits(name):
    def start():
        model = net(norm=False) if name != "schedule" else net()
        return quantized_of(model, EVERYTHING[name], seed=7)

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
    other = quantization(quantize_model(net(), Recipe(input="e3m4"), say=None))
    with pytest.raises(ValueError, match="another recipe"):
        other.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="made by state_dict"):
        other.load_state_dict({})


def test_a_schedule_changes_the_formats_at_its_steps():
    """The last steps in fp32 are those of an fp32 run from the same weights."""
    model, plain = net(), net()
    optimizer = sgd(model)
    quantized = quantization(
        quantize_model(model, {0: FP8, 3: None}, optimizer=optimizer, say=None)
    )
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
    quantized = quantized_of(model, Recipe(input="e4m3fn", loss_scale=rule))
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
    quantized = quantized_of(model, recipe)
    train(quantized, 0, 2)
    for module, kept in ((model[0], False), (model[3], True)):
        for p in module.parameters():
            assert torch.equal(at.quantize(p.detach(), "bf16"), p) == kept
    with pytest.raises(ValueError, match="weights are in bf16 nearest and fp16 nearest"):
        quantize_model(
            one := net(), Recipe(weight_update="bf16", where={"last": Recipe(weight_update="fp16")}),
            optimizer=sgd(one), say=None,
        )  # fmt: skip
    with pytest.raises(ValueError, match="optimizer has no parameter of the model"):
        quantize_model(net(), "mxfp8", optimizer=sgd(net()), say=None)


def test_a_loss_scale_alone_changes_no_bit():
    found = []
    for rule in (None, LossScale(2.0**12)):
        model = net(norm=False)
        quantized = quantized_of(model, Recipe(input="e4m3fn", loss_scale=rule))
        train(quantized, 0, 3)
        found.append(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(*(f.values() for f in found)))


@pytest.mark.parametrize("name", list(recipes()))
def test_every_preset_trains_and_names_its_source(name):
    recipe = recipes()[name]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(),
                          nn.Flatten(), nn.Linear(64, 10))  # fmt: skip
    quantized = quantized_of(model, name)
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
    torch._dynamo.reset()
    with pytest.raises(Exception, match="leave out fullgraph=True"):
        torch.compile(other, backend="aot_eager", fullgraph=True)(x)


def test_it_mixes_with_an_exchange_and_refuses_vmap_in_a_sentence():
    found = []
    for _ in range(2):
        model = net(norm=False)
        quantized = quantization(quantize_model(model, FP8, say=None))
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


def test_the_model_is_returned_and_what_was_done_to_it_is_found():
    model = net()
    given = {"*": Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2", accumulate="fp32")}
    assert quantize_model(model, given, say=None) is model
    alone = quantization(quantize_model(net(), given["*"], say=None))
    assert quantization(model).uses == alone.uses
    quantization(model).remove()
    with pytest.raises(ValueError, match="is not quantized; call quantize_model"):
        quantization(model)
    with pytest.raises(ValueError, match="'halp' is a method of training.* apscope.train.HALP"):
        quantize_model(model, "halp", say=None)


def test_patterns_choose_layers_with_products():
    formats = {}
    for given in (
        {"0": None, "*": Recipe(input="e4m3fn")},
        {"last": Recipe(input="bf16"), "*": None},
    ):
        uses = quantization(quantize_model(net(), given, say=None)).uses
        formats |= {
            tuple(given): [(part, str(c)) for part, role, c in uses if role.endswith("input")]
        }
    assert list(formats.values()) == [[("4", "e4m3fn")], [("4", "bf16")]]
    for wrong, error, sentence in (
        ({"nose*": None, "*": Recipe(input="e4m3fn")}, ValueError, "'nose\\*' matches no layer"),
        ({"first": "fp8_training", "*": None}, ValueError, "patterns or a loss scale of its own"),
        ({"first": 3, "*": None}, TypeError, "the recipe of 'first' is int"),
        ({"first": None, 3: None}, TypeError, "must be an integer"),
    ):
        with pytest.raises(error, match=sentence):
            quantize_model(net(), wrong, say=None)


def test_a_layer_alone_and_an_unknown_unit_are_named():
    told = []
    quantize_model(nn.Linear(4, 4), "mxfp8", say=told.append)
    assert "\n  the model: forward.input mxfp8_e4m3" in told[0]
    for unit in ("h1000:fp8", "h100:fp9"):
        with pytest.raises(ValueError, match=f"unknown matrix unit '{unit}'; use v100"):
            quantize_model(nn.Linear(4, 4), Recipe(accumulate=unit), say=None)
    with pytest.raises(TypeError, match=r"x is torch.sparse_coo; give x.to_dense\(\)"):
        at.quantize(torch.eye(3).to_sparse(), "e4m3")
