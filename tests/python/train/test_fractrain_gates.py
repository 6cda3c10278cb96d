"""FracTrain's gates: the quantizer, choices, cost and both selections against an independent
reference; whole passes, resumed runs, refusals."""

import copy

import numpy as np
import pytest

import apscope
from tests.reference import fractrain_gates as reference
from tests.reference.random_words import QUANTIZE, random_integers, words_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from apscope.train import FracTrain, Gates  # noqa: E402
from apscope.train._fractrain_gates import GateNetwork, hard_choice  # noqa: E402
from apscope.train._fractrain_levels import affine, extremes, row_extremes  # noqa: E402

PAIRS = {"activations": (2, 3, 5), "gradients": (4, 3, 6)}


def uniforms(seed, shape):
    """The words of a seed, as numbers of [0, 1)."""
    words = random_integers(words_of(seed), list(range(int(np.prod(shape)))), 32, QUANTIZE)
    return np.reshape([int(word) / 2**32 for word in words], shape)


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs=3, outputs=3):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv2(torch.relu(self.norm(self.conv1(x))))
        return y + x if x.shape == y.shape else y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 1)
        self.first, self.second = Block(), Block(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.second(self.first(self.stem(x))).mean((2, 3)))


def made(seed=0, model=None, **options):
    torch.manual_seed(seed)
    model = Net() if model is None else model
    gates = Gates(["first", "second"], **PAIRS | options)
    schedule = FracTrain(model, gates=gates, seed=4)
    for p in schedule.network.parameters():  # so the samples choose different pairs
        nn.init.normal_(p, std=p.dim() - 1.0)
    return model, schedule


def images(n=6, seed=1):
    return torch.randn(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))


def one_pair_chosen(schedule, k):
    """Every sample chooses the pair k."""
    with torch.no_grad():
        schedule.network.choice.weight.zero_()
        schedule.network.choice.bias.zero_()[k] = 1.0


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8, 12, 16])
def test_levels_are_the_references_bit_for_bit(bits):
    rng = np.random.default_rng(bits)
    for scale in (1e-30, 1e-7, 1.0, 1e20):
        x = (scale * rng.standard_normal((5, 4, 3, 3))).astype(np.float32)
        t = torch.from_numpy(x)
        assert np.array_equal(affine(t, bits, *extremes(t)).numpy(), reference.whole(x, bits))
        assert np.array_equal(affine(t, bits, *row_extremes(t)).numpy(), reference.weights(x, bits))
        low, width = np.float32(-0.3 * scale), np.float32(0.7 * scale)  # some lie outside
        found = affine(t, bits, torch.tensor(low), torch.tensor(width))
        assert np.array_equal(found.numpy(), reference.quantized(x, bits, low, width))
    same = torch.full((2, 3), 0.1)
    assert torch.equal(affine(same, bits, *extremes(same)), same)


def test_a_draw_adds_half_a_unit_of_noise_to_quarters_of_levels():
    x = (np.random.default_rng(0).integers(0, 29, (40, 9)) / 4).astype(np.float32)
    x.flat[:2] = 0, 7
    t = torch.from_numpy(x)
    found = affine(t, 3, *extremes(t), seed=5)
    assert np.array_equal(found.numpy(), reference.whole(x, 3, uniforms(5, x.shape)))
    assert not np.array_equal(found.numpy(), reference.whole(x, 3))


def test_choices_are_the_references_bit_for_bit_with_ties():
    logits = np.random.default_rng(0).standard_normal((50, 5)).astype(np.float32)
    logits[:9, 1] = logits[:9, 3] = 4.0
    p = reference.probabilities(logits)
    given = torch.from_numpy(p).requires_grad_()
    m = hard_choice(given)
    assert np.array_equal(m.detach().numpy(), reference.choice(p))
    assert (m > 0.5).sum() == 50 + 9
    g = torch.randn(50, 5)
    m.backward(g)
    assert torch.equal(given.grad, g)


def test_a_tie_adds_the_outputs_of_all_tied_widths():
    """With equal numbers for all pairs, a block of one identical pair thrice is three times it."""
    model, schedule = made(activations=(4, 4, 4), gradients=(6, 6, 6))
    _, single = made(model=model, activations=(4,), gradients=(6,))
    schedule.network.choice.weight.data.zero_()
    schedule.network.choice.bias.data.zero_()
    x = torch.randn(5, 3, 4, 4)
    found = []
    for one in (schedule, single):
        with one:
            found.append(model.first(x))
    assert torch.allclose(found[0], 3 * found[1], rtol=1e-5)


@pytest.mark.parametrize("flops", [None, (2.0, 5.0)])
@pytest.mark.parametrize("batch_size", [None, 128])
def test_cost_percent_sign_and_term_are_the_references(flops, batch_size):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        hard = np.eye(5, dtype=np.float32)[rng.integers(0, 5, (2, 80))]
        gates = Gates(["a", "b"], flops=flops or (), batch_size=batch_size, target=2.9, beta=0.01)
        chosen = [torch.from_numpy(m).requires_grad_() for m in hard]
        of_blocks = list(flops or (1.0, 1.0))
        wanted = reference.cost(hard, reference.CIFAR, 4, of_blocks)
        assert gates.cost(chosen).item() == wanted
        percent = reference.percent(wanted, batch_size or 80, of_blocks)
        assert gates.percent(wanted, 80) == pytest.approx(percent, rel=1e-15)
        r = reference.direction(percent, 2.9)
        term = gates.regularizer(chosen)
        assert term.item() == pytest.approx(
            reference.loss(0.0, wanted, r, of_blocks, beta=0.01), rel=1e-6
        )
        term.backward()
        unit = [reference.width_cost(a, g, 4) for a, g in zip(*reference.CIFAR, strict=True)]
        for m, f in zip(chosen, of_blocks, strict=True):
            one = r * 0.01 * f * np.array(unit) / np.mean(of_blocks)
            assert np.allclose(m.grad.numpy(), np.broadcast_to(one, (80, 5)), rtol=1e-6)


@pytest.mark.parametrize("relax", [0.0, 0.25, 1.0])
def test_signs_are_the_references_on_both_sides_of_every_bound(relax):
    targets = (1.5, 3.0)
    dfq = Gates(["a"], target=targets, relax=relax)
    fractrain = Gates(["a"], target=targets, relax=relax, rule="fractrain")
    for stage, target in enumerate(targets):
        for bound in (target - relax, target, target + relax):
            for percent in (np.nextafter(bound, 0), bound, np.nextafter(bound, 9)):
                assert dfq.sign(percent, stage) == reference.direction(percent, target, relax)
                wanted = reference.direction_of_fractrain(percent, target, relax)
                assert fractrain.sign(percent, stage) == wanted
    found = {dfq.sign(p) for p in np.linspace(0, 4, 401)}
    assert found == ({-1.0, 1.0} if relax == 0 else {-1.0, -0.1, 0.1, 1.0})


@pytest.mark.parametrize("sizes", [(7, 5, 4), (0, 6, 3)])
def test_a_gate_is_a_pool_convolutions_one_lstm_cell_and_a_softmax(sizes):
    torch.manual_seed(0)
    network = GateNetwork((3, 2), sizes, 4)
    maps = [torch.randn(6, 3, 4, 4), torch.randn(6, 2, 2, 2)]
    state, h = None, np.zeros((6, sizes[2]))
    c = h
    own = {name: p.detach().double().numpy() for name, p in network.named_parameters()}

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    for t, x in enumerate(maps):
        m, state = network(t, x, state)
        e = x.double().numpy().mean((2, 3))
        if sizes[0]:
            first, second = f"embeddings.{t}.0", f"embeddings.{t}.2"
            e = np.maximum(e @ own[f"{first}.weight"].T + own[f"{first}.bias"], 0)
        else:
            second = f"embeddings.{t}"
        e = e @ own[f"{second}.weight"].T + own[f"{second}.bias"]
        four = e @ own["cell.weight_ih"].T + own["cell.bias_ih"]
        four = four + h @ own["cell.weight_hh"].T + own["cell.bias_hh"]
        i, f, g, o = np.split(four, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logits = h @ own["choice.weight"].T + own["choice.bias"]
        assert np.allclose(state[0].detach().numpy(), h, atol=1e-5)
        assert np.array_equal(m.detach().numpy() > 0.5, np.eye(4)[logits.argmax(1)] > 0)


def test_first_weights_have_the_codes_deviations():
    torch.manual_seed(0)
    network = GateNetwork((300,), (200, 100, 150), 80)
    hidden, _, features = network.embeddings[0]
    for weight, wanted in [
        (hidden.weight, reference.normal_deviation(1, 200)),
        (features.weight, reference.normal_deviation(1, 100)),
        (network.choice.weight, reference.linear_deviation(150, 80)),
    ]:
        assert weight.std().item() == pytest.approx(wanted, rel=0.03)


def rounded(convolution, x, a, w=4):
    """A convolution of rounded operands, the output's gradient as it is."""
    weight = torch.from_numpy(reference.weights(convolution.weight.detach().numpy(), w))
    return functional.conv2d(x if a is None else _whole(x, a), weight, padding=convolution.padding)


def _whole(x, bits, *noise):
    return torch.from_numpy(reference.whole(x.detach().numpy(), bits, *noise))


def test_a_block_is_the_sum_of_its_candidates_as_chosen():
    """Forward pass, batch norms of every candidate, and the choice's gradient."""
    model, schedule = made(seed=3)
    block, x = model.first, torch.randn(6, 3, 4, 4)
    plain = copy.deepcopy(block)
    candidates = []
    for a in PAIRS["activations"]:
        y = torch.relu(plain.norm(rounded(plain.conv1, x, a)))
        candidates.append((rounded(plain.conv2, y, a) + x).detach().numpy())
    with schedule:
        out = block(x)
    mask = schedule._blocks.chosen[0]
    assert len(mask.detach().argmax(1).unique()) > 1
    mixed = reference.mixed(mask.detach().numpy(), np.stack(candidates))
    assert np.allclose(out.detach().numpy(), mixed, atol=1e-4)
    for name, value in plain.norm.state_dict().items():
        assert torch.allclose(block.norm.state_dict()[name], value, atol=1e-5), name
    assert block.norm.num_batches_tracked == 3
    g = torch.randn_like(out)
    mask.retain_grad()
    out.backward(g)
    wanted, _ = reference.mixed_gradients(mask.detach().numpy(), np.stack(candidates), g.numpy())
    assert np.allclose(mask.grad.numpy(), wanted, atol=1e-3)
    assert float(schedule.network.choice.bias.grad.abs().max()) > 0


@pytest.mark.parametrize("select", ["block", "convolution"])
def test_every_pair_rounds_the_gradients_of_all_samples_with_its_width(select):
    """By a weight's gradient: inputs of 16 bits are the same for all pairs."""
    model = nn.ModuleDict({"first": nn.Conv2d(3, 2, 1), "second": nn.Conv2d(2, 2, 1)})
    _, schedule = made(8, model, select=select, activations=(16, 16, 16))
    x, g = torch.randn(5, 3, 2, 2), torch.randn(5, 2, 2, 2)
    with schedule:
        y = model["first"](x)
    y.backward(g)
    mask = schedule._blocks.chosen[0].detach()
    assert len(mask.argmax(1).unique()) > 1
    # Autograd goes from the last pair to the first.
    seeds = [apscope.Draws(4, call).next() for call in (2, 1, 0)]
    noise = [uniforms(seed, g.shape) for seed in seeds]
    wanted = reference.summed_gradients(mask.numpy(), g.numpy(), list(PAIRS["gradients"]), noise)
    products = np.einsum("nohw,nihw->oi", wanted, reference.whole(x.numpy(), 16))
    weight, bias = (p.grad.numpy() for p in model["first"].parameters())
    assert np.allclose(weight[..., 0, 0], products, atol=1e-4)
    assert np.allclose(bias, wanted.sum((0, 2, 3)), atol=1e-4)


def test_inside_a_convolution_the_rounded_inputs_are_added_as_chosen():
    model, schedule = made(seed=3, select="convolution")
    block, x = model.first, torch.randn(6, 3, 4, 4)
    plain = copy.deepcopy(block)
    with schedule:
        out = block(x)
    mask = schedule._blocks.chosen[0]

    def selected(x):
        parts = [reference.whole(x.detach().numpy(), a) for a in PAIRS["activations"]]
        return torch.from_numpy(reference.mixed(mask.detach().numpy(), np.stack(parts)))

    y = torch.relu(plain.norm(rounded(plain.conv1, selected(x), None)))
    y = rounded(plain.conv2, selected(y), None) + x
    assert torch.allclose(out, y, atol=1e-4)
    assert block.norm.num_batches_tracked == 1
    mask.retain_grad()
    out.square().sum().backward()
    assert float(mask.grad.abs().max()) > 0 and float(block.conv1.weight.grad.abs().max()) > 0


def test_layers_outside_of_blocks_are_not_rounded_and_the_model_is_given_back():
    model, schedule = made()
    x, before = torch.randn(6, 3, 4, 4), dict(vars(model.first))
    model.second.forward = own = model.second.forward
    with schedule:
        assert torch.equal(
            model.stem(images()), functional.conv2d(images(), *model.stem.parameters())
        )
        with_gates = model.first(x)
    assert vars(model.first).keys() == before.keys() and model.second.forward == own
    assert not torch.equal(model.first(x), with_gates)
    with pytest.raises(ZeroDivisionError), schedule:
        1 / 0
    assert "forward" not in vars(model.first)


def test_running_extremes_are_updated_per_pair_and_clamp_the_inputs_of_evaluation():
    for select in ("block", "convolution"):
        model, schedule = made(select=select)
        low = width = 0.0
        for seed in range(3):
            x = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
            with schedule:
                model.first(x)
            span = float(x.max() - x.min())
            low = reference.running(low, float(x.min()), updates=3)
            width = reference.running(width, span, updates=3)
        found = schedule.state_dict()["extremes"]["first.conv1"]
        assert np.allclose(found.numpy(), [low, width], rtol=1e-6)
        one_pair_chosen(schedule, 1)
        model.eval()
        x = 5 * torch.randn(6, 3, 4, 4)
        clamped = torch.from_numpy(reference.quantized(x.numpy(), 3, *found.numpy()))
        seen = []
        model.first.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        with schedule, torch.no_grad():
            model.first(x)
        wanted = rounded(model.first.conv1, clamped, None).detach()
        at = 1 if select == "block" else 0
        assert torch.allclose(seen[at], wanted, atol=1e-4)
        assert torch.equal(schedule.state_dict()["extremes"]["first.conv1"], found)


def test_cost_percent_and_choices_of_a_pass():
    """Both blocks in 3 and 3 bits, weights in 4: (3 4 + 3 4 + 3 3) / (3 32^2)."""
    for select in ("block", "convolution"):
        model, schedule = made(select=select)
        one_pair_chosen(schedule, 1)
        with schedule:
            model(images())
        assert schedule.choices.shape == (2, 6, 3)
        assert schedule.choices[..., 1].all() and schedule.choices.sum() == 12
        assert schedule.percent == pytest.approx(100 * 33 / 3072)
        assert schedule.cost / schedule.full_cost == pytest.approx(33 / 3072)
        convolutions = 16 * (3 * 27 + 3 * 27 + 4 * 27 + 4 * 36)  # per sample
        assert schedule.full_cost == 3 * 6 * convolutions


@pytest.mark.parametrize("select", ["block", "convolution"])
def test_the_term_alone_moves_the_cost_to_the_target(select):
    """From 6 bits, the most expensive pair, and from 3, the cheapest, to between them."""
    for start, target in ((2, 2.0), (1, 2.2)):
        model, schedule = made(activations=(3, 3, 6), gradients=(6, 6, 12), target=target,
                               beta=0.3, select=select)  # fmt: skip
        one_pair_chosen(schedule, start)
        nn.init.normal_(schedule.network.choice.weight, std=0.3)
        optimizer = torch.optim.SGD(schedule.network.parameters(), lr=0.1)
        found = []
        for step in range(40):
            optimizer.zero_grad()
            with schedule:
                model(images(16, step))
            found.append(schedule.percent)
            schedule.regularizer().backward()
            optimizer.step()
        assert abs(found[0] - target) > 0.2
        assert min(found) < target < max(found)


def test_targets_follow_the_stages():
    model, schedule = made(target=(1.0, 2.0, 3.0))
    one_pair_chosen(schedule, 2)  # 100 (5 4 + 6 4 + 5 6) / 3072 = 2.41
    with schedule:
        model(images())
    signs = []
    for _ in range(12):
        signs.append(int(torch.sign(schedule.regularizer())))
        schedule.observe(1.0)
    assert schedule.stage == 2 and signs == [1] * 10 + [-1] * 2


def step(model, schedule, optimizer, seed):
    optimizer.zero_grad()
    with schedule:
        loss = model(images(seed=seed)).square().mean()
    (loss + schedule.regularizer()).backward()
    optimizer.step()


@pytest.mark.parametrize("select", ["block", "convolution"])
def test_a_resumed_run_has_the_same_bits(tmp_path, select):
    def run(model, schedule, first, last, state=None):
        optimizer = torch.optim.SGD([*model.parameters(), *schedule.network.parameters()], lr=0.1)
        for seed in range(first, last):
            step(model, schedule, optimizer, seed)

    model, schedule = made(select=select)
    run(model, schedule, 0, 2)
    torch.save([model.state_dict(), schedule.state_dict()], tmp_path / "state")
    run(model, schedule, 2, 4)
    other, resumed = made(9, select=select)
    weights, state = torch.load(tmp_path / "state", weights_only=True)
    other.load_state_dict(weights)
    resumed.load_state_dict(state)
    run(other, resumed, 2, 4)
    for one, two in [(model, other), (schedule.network, resumed.network)]:
        for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
            assert torch.equal(a, b)
    assert schedule.cost == resumed.cost and schedule.percent == resumed.percent
    with pytest.raises(ValueError, match="gates"):
        made(select=select, beta=0.5)[1].load_state_dict(state)


def test_a_compiled_model_has_the_same_bits():
    model, _ = made()
    compiled, found = torch.compile(model, backend="eager"), []
    for called in (model, compiled):
        model.zero_grad()
        _, schedule = made(2, model=model)
        with schedule:
            y = called(images())
        y.square().sum().backward()
        found.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("each once", {"blocks": ["a", "a"]}),
        ("each once", {"blocks": []}),
        ("blocks='ab'", {"blocks": "ab"}),
        ("one of each per pair", {"activations": (3,)}),
        ("activations", {"activations": (-1, 4, 4, 6, 6)}),
        ("weights", {"weights": 17}),
        ("target has 0", {"target": 0}),
        ("target is empty", {"target": ()}),
        ("beta has -1", {"beta": -1}),
        ("relax has nan", {"relax": float("nan")}),
        ("dfq or fractrain", {"rule": "both"}),
        ("block or convolution", {"select": "layer"}),
        ("two|three", {"sizes": (1, 2)}),
        ("flops has 2 elements for 1 blocks", {"flops": (1, 2)}),
        ("batch_size", {"batch_size": 0}),
    ],
)
def test_wrong_settings_are_refused(words, options):
    with pytest.raises((ValueError, TypeError), match=words):
        Gates(**{"blocks": ["a"]} | options)


def test_wrong_blocks_and_calls_are_refused():
    model = Net()
    for words, options in [
        ("not a module of the model", {"gates": Gates(["third"])}),
        ("a part of 'first'", {"gates": Gates(["first", "first.conv1"])}),
        ("no linear layer or convolution", {"gates": Gates(["first.norm"])}),
        ("given with gates", {"gates": Gates(["first"]), "bits": (4,), "gradient_bits": (6,)}),
        ("momentum", {"momentum": 1.5}),
    ]:
        with pytest.raises(ValueError, match=words):
            FracTrain(model, **options)
    model, schedule = made()
    with pytest.raises(RuntimeError, match="reached 0 of 2"):
        schedule.regularizer()
    with schedule, pytest.raises(RuntimeError, match="order of the forward pass"):
        model.second(torch.randn(2, 3, 4, 4))
    with schedule, pytest.raises(ValueError, match="its gate needs"):
        model.first(torch.randn(2, 5, 4, 4))
    model.eval()
    with schedule, pytest.raises(RuntimeError, match="before any pass in training mode"):
        model(images())
    with pytest.raises(RuntimeError, match="see choices"):
        schedule.widths
    plain = FracTrain(Net())
    assert float(plain.regularizer()) == 0 and not list(plain.network.parameters())
    with pytest.raises(RuntimeError, match="give gates="):
        plain.choices


class InPlace(nn.Conv2d):
    def forward(self, x):
        return super().forward(x.add_(1))


class Two(nn.Conv2d):
    def forward(self, x):
        return super().forward(x), x


@pytest.mark.parametrize(
    ("kind", "words", "error"),
    [(InPlace, "in place", RuntimeError), (Two, "returns tuple", TypeError)],
)
def test_blocks_that_cannot_be_repeated_are_refused(kind, words, error):
    model = nn.Sequential(kind(2, 2, 1))
    schedule = FracTrain(model, gates=Gates(["0"]))
    with schedule, pytest.raises(error, match=words):
        model(torch.ones(3, 2, 1, 1))
