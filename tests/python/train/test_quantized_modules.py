"""Attention and LSTM made of the parts of linear layers, norms and embeddings: bits by
apscope.torch's functions."""

import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope.torch as at  # noqa: E402
from apscope.train import Recipe, quantization, quantize_model  # noqa: E402

FP8 = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2")
IDENTITY = Recipe(input="fp32", weight="fp32", grad_output="fp32")
SUMMED = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2", accumulate="fp32")


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
    y = at.linear(at.quantize(x, "e4m3fn", overflow="saturate"),
                  at.quantize(w, "e4m3fn", overflow="saturate"), format="fp32",
                      backward="fp32")  # fmt: skip
    y = rounds_gradient(y)
    return y if bias is None else y + bias


def rounds_gradient(y):
    return at.quantize(y, "fp32", backward="e5m2", overflow="saturate")


def product(a, b):
    a, b = (at.quantize(t, "e4m3fn", overflow="saturate") for t in (a, b))
    return rounds_gradient(at.matmul(a, b, "fp32", backward="fp32"))


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
    quantized = quantization(quantize_model(model, SUMMED, say=None))
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
    dict(), dict(batch_first=True, num_layers=2, bidirectional=True), dict(bias=False),
    dict(num_layers=2),
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
    quantized = quantization(
        quantize_model(
            model,
            Recipe(
                input="e4m3fn",
                weight="e4m3fn",
                output="e4m3fn",
                grad_output="e5m2",
                also=("Embedding", "LayerNorm"),
            ),
            say=None,
        )
    )
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


def test_cpds_preset_has_the_bits_of_its_linear_layer():
    from apscope.train.cpd import Quant_Linear

    torch.manual_seed(0)
    plain, theirs = nn.Linear(20, 6), Quant_Linear(20, 6, exp=4, man=3)
    theirs.load_state_dict(plain.state_dict())
    quantize_model(plain, "cpd", say=None)
    x, g = torch.randn(12, 20), torch.randn(12, 6)
    found = []
    for m in (plain, theirs):
        given = x.clone().requires_grad_()
        y = m(given)
        y.backward(g)
        found.append((y, given.grad, m.weight.grad))
    assert all(torch.equal(a, b) for a, b in zip(*found))
