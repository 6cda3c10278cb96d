"""FracTrain's gates that skip blocks, depthwise convolutions of constant widths, and the bound of
the cost's term by the cross entropy, against an independent reference."""

import numpy as np
import pytest

from tests.reference import fractrain_gates as reference

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from apscope.train import FracTrain, Gates  # noqa: E402


class Wider(nn.Module):
    """A block whose shortcut is a convolution and a batch norm."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.shortcut = nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4))

    def forward(self, x):
        return self.conv(x) + self.shortcut(x)


def skipping(pairs=((0, 0), (4, 6)), **options):
    """Two blocks of 3 to 3 and 3 to 4 channels, and their schedule."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"same": nn.Conv2d(3, 3, 3, padding=1), "wider": Wider()})
    activations, gradients = zip(*pairs, strict=True)
    options = {"shortcuts": ["", "wider.shortcut"]} | options
    gates = Gates(["same", "wider"], activations=activations, gradients=gradients, **options)
    schedule = FracTrain(model, gates=gates, seed=4)
    for p in schedule.network.parameters():  # so the samples choose different pairs
        nn.init.normal_(p, std=p.dim() - 1.0)
    return model, schedule


def whole(x, bits):
    return torch.from_numpy(reference.whole(x.detach().numpy(), bits))


def weights(w, bits=4):
    return torch.from_numpy(reference.weights(w.detach().numpy(), bits))


def test_samples_that_choose_no_bits_skip_the_block_by_its_shortcut():
    model, schedule = skipping()
    x = torch.randn(12, 3, 4, 4)
    plain = {name: t.clone() for name, t in model.state_dict().items()}
    with schedule:
        y = model["same"](x)
        z = model["wider"](y)
    first, second = (m.detach().numpy() for m in schedule._blocks.chosen)
    assert 0 < schedule.choices[0, :, 0].sum() < 12 and 0 < schedule.choices[1, :, 0].sum() < 12
    same = functional.conv2d(whole(x, 4), weights(plain["same.weight"]), plain["same.bias"],
                             padding=1)  # fmt: skip
    wanted = reference.mixed(first, np.stack([x.numpy(), same.numpy()]))
    assert np.allclose(y.detach().numpy(), wanted, atol=1e-4)
    assert torch.equal(y[schedule.choices[0, :, 0]], x[schedule.choices[0, :, 0]])

    norm, y = nn.BatchNorm2d(4), y.detach()
    shortcut = plain["wider.shortcut.0.weight"]
    skipped = norm(functional.conv2d(y, shortcut))  # fp32
    computed = functional.conv2d(whole(y, 4), weights(plain["wider.conv.weight"]), padding=1)
    computed = computed + norm(functional.conv2d(whole(y, 4), weights(shortcut)))
    wanted = reference.mixed(second, np.stack([skipped.detach(), computed.detach()]))
    assert np.allclose(z.detach().numpy(), wanted, atol=1e-3)
    for name, value in norm.state_dict().items():
        assert torch.allclose(model["wider"].shortcut[1].state_dict()[name], value, atol=1e-4), name


def test_a_skipped_block_passes_the_gradient_and_draws_nothing():
    model, schedule = skipping(pairs=((4, 6), (0, 0)))
    with torch.no_grad():
        schedule.network.choice.weight.zero_()
        schedule.network.choice.bias.copy_(torch.tensor([0.0, 1.0]))
    x, g = torch.randn(5, 3, 4, 4, requires_grad=True), torch.randn(5, 3, 4, 4)
    with schedule:
        y = model["same"](x)
    y.backward(g)
    assert torch.equal(y, x)
    assert torch.allclose(x.grad, g, atol=1e-5)  # but for the gate's own gradient of 0 below
    assert float(model["same"].weight.grad.abs().max()) < 1e-6
    assert schedule.cost == 0.0 and schedule.full_cost == 3 * 5 * 16 * 3 * 27


@pytest.mark.parametrize("select", ["block", "convolution"])
def test_cost_of_a_pass_with_samples_that_skip(select):
    """Both of the formula of the gates and of the passes."""
    pairs = ((3, 3), (0, 0), (0, 0))
    model, schedule = skipping(pairs, select=select, flops=(81, 4 * 27 + 12))
    x = torch.randn(9, 3, 4, 4)
    with schedule:
        model["wider"](model["same"](x))
    hard = schedule.choices.numpy().astype(np.float32)
    assert 0 < hard[..., 0].sum() < 18
    unit = [reference.width_cost(a, g, 4, select == "convolution") for a, g in pairs]
    flops = [81.0, 120.0]
    C = sum(f * float((m * unit).sum()) for f, m in zip(flops, hard, strict=True))
    assert schedule.gates.costs.tolist() == unit
    assert schedule.percent == pytest.approx(reference.percent(C, 9, flops), rel=1e-6)
    assert 100 * schedule.cost / schedule.full_cost == pytest.approx(schedule.percent, rel=1e-6)
    assert schedule.full_cost == 3 * 9 * 16 * (81 + 120)


def test_inside_a_convolution_no_bits_leave_the_input_and_the_gradient():
    model, schedule = skipping(((0, 0), (4, 6)), select="convolution")
    x, g = torch.randn(8, 3, 4, 4), torch.randn(8, 3, 4, 4)
    with schedule:
        y = model["same"](x)
    chosen = schedule._blocks.chosen[0].detach()
    assert len(chosen.argmax(1).unique()) == 2
    mixed = reference.mixed(chosen.numpy(), np.stack([x.numpy(), whole(x, 4).numpy()]))
    weight, bias = (p.detach() for p in model["same"].parameters())
    wanted = functional.conv2d(torch.from_numpy(mixed), weights(weight), bias, padding=1)
    assert torch.allclose(y, wanted, atol=1e-4)
    # The samples without bits have exact gradients, and the noise of the other pair's rounding.
    keeps = chosen[:, :1].reshape(-1, 1, 1, 1)
    (row,) = torch.autograd.grad(y, model["same"].bias, g, retain_graph=True)
    exact, rounded = (keeps * g).sum((0, 2, 3)), (1 - keeps) * g
    step = float(rounded.max() - rounded.min()) / 63
    assert not torch.equal(row, g.sum((0, 2, 3)))
    assert float((row - exact - rounded.sum((0, 2, 3))).abs().max()) < 8 * 16 * step


class Separable(nn.Module):
    """A depthwise convolution between two of 1x1, as a block of MobileNetV2."""

    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(3, 6, 1, bias=False)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.reduce = nn.Conv2d(6, 3, 1, bias=False)

    def forward(self, x):
        return self.reduce(self.depthwise(self.expand(x))) + x


@pytest.mark.parametrize("select", ["block", "convolution"])
def test_depthwise_convolutions_keep_their_widths_whatever_the_gates_choose(select):
    torch.manual_seed(1)
    model = nn.ModuleDict({"block": Separable()})
    gates = Gates(["block"], activations=(2, 3), gradients=(4, 5), select=select, flops=[36],
                  depthwise=(6, 9), depthwise_flops=[54])  # fmt: skip
    schedule = FracTrain(model, gates=gates)
    for p in schedule.network.parameters():
        nn.init.normal_(p, std=p.dim() - 1.0)
    block, x = model["block"], torch.randn(8, 3, 4, 4)
    with schedule:
        y = block(x)
    chosen = schedule._blocks.chosen[0].detach().numpy()
    assert len(chosen.argmax(1)) == 8 and 0 < chosen[:, 0].sum() < 8

    def part(h, convolution, *bits):
        rows = [whole(h, b).numpy() for b in bits]
        h = rows[0] if len(rows) == 1 else reference.mixed(chosen, np.stack(rows))
        w = weights(convolution.weight, 6 if convolution.groups > 1 else 4)
        return functional.conv2d(torch.from_numpy(h), w, None, *block_options(convolution))

    def computed(*bits):
        h = part(part(x, block.expand, *bits), block.depthwise, 6)
        return (part(h, block.reduce, *bits) + x).detach().numpy()

    if select == "block":
        wanted = reference.mixed(chosen, np.stack([computed(2), computed(3)]))
    else:
        wanted = computed(2, 3)
    assert np.allclose(y.detach().numpy(), wanted, atol=1e-4)
    costs = [reference.width_cost(a, g, 4) for a, g in ((2, 4), (3, 5))]
    constant = reference.width_cost(6, 9, 6) * 54
    C = 36 * float((chosen * costs).sum()) + 8 * constant
    found = schedule.gates.cost(schedule._blocks.chosen).item()
    assert found == pytest.approx(C, rel=1e-6)
    assert schedule.percent == pytest.approx(reference.percent(C, 8, [36], constant), rel=1e-6)
    assert schedule.full_cost == pytest.approx(3 * 8 * 16 * 90)
    assert schedule.cost == pytest.approx(16 * C, rel=1e-6)


def block_options(convolution):
    return convolution.stride, convolution.padding, convolution.dilation, convolution.groups


def test_the_code_counts_depthwise_convolutions_in_8_bits_with_gradients_of_16():
    gates = Gates(["a"], flops=[2.0], depthwise_flops=[2.0, 3.0])
    hard = [torch.eye(5)[[0, 3, 4]]]
    constant = reference.depthwise_cost([2.0, 3.0], 1)
    C = reference.cost([hard[0].numpy()], reference.CIFAR, 4, [2.0]) + 3 * constant
    assert gates.cost(hard).item() == pytest.approx(C, rel=1e-6)
    assert gates.percent(C, 3) == reference.percent(C, 3, [2.0], constant)


@pytest.mark.parametrize("flops", [(1.0, 1.0), (3.0, 7.0)])
@pytest.mark.parametrize("entropy", [0.02, 0.2, 2.0])
def test_ada_beta_bounds_the_term_by_a_tenth_of_the_cross_entropy(flops, entropy):
    bounded = 0
    for beta in (1e-4, 1e-3, 1e-2, 0.1):
        for target in (1.0, 9.0):
            gates = Gates(["a", "b"], flops=flops, beta=beta, target=target, ada_beta=True)
            hard = np.eye(5, dtype=np.float32)[np.random.default_rng(0).integers(0, 5, (2, 30))]
            chosen = [torch.from_numpy(m).requires_grad_() for m in hard]
            C = reference.cost(hard, reference.CIFAR, 4, list(flops))
            r = reference.direction(reference.percent(C, 30, list(flops)), target)
            term = gates.regularizer(chosen, entropy=entropy)
            wanted = reference.loss(entropy, C, r, list(flops), beta, True) - entropy
            assert term.item() == pytest.approx(wanted, rel=1e-5)
            plain = reference.loss(0.0, C, r, list(flops), beta)
            bounded += abs(wanted) < 0.99 * abs(plain)
            term.backward()
            unit = [reference.width_cost(a, g, 4) for a, g in zip(*reference.CIFAR, strict=True)]
            factor = wanted / plain * r * beta / np.mean(flops)
            for m, f in zip(chosen, flops, strict=True):
                found = m.grad.numpy()
                assert np.allclose(found, np.broadcast_to(f * factor * np.array(unit), (30, 5)))
    assert 0 < bounded < 8


def test_the_schedule_needs_the_loss_for_ada_beta():
    model, schedule = skipping(ada_beta=True, beta=10.0, target=0.01)
    with schedule:
        loss = model["wider"](model["same"](torch.randn(6, 3, 4, 4))).square().mean()
    assert schedule.regularizer(loss).item() == pytest.approx(loss.item() / 10, rel=1e-6)
    assert schedule.regularizer(loss.item()).item() == schedule.regularizer(loss).item()
    with pytest.raises(ValueError, match="give loss="):
        schedule.regularizer()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (r"pair \(0, 6\)", {"activations": (0, 4), "gradients": (6, 6)}),
        (r"pair \(4, 0\)", {"activations": (4, 4), "gradients": (6, 0)}),
        (r"pair \(0, 0\)", {"activations": (0,), "gradients": (0,)}),
        ("shortcuts has 2 elements for 1 blocks", {"shortcuts": ["", ""]}),
        ("depthwise has 1 widths", {"depthwise": (8,)}),
        ("depthwise=0", {"depthwise": (8, 0)}),
        ("depthwise_flops has -1", {"depthwise_flops": [-1]}),
        ("ada_beta=1", {"ada_beta": 1}),
    ],
)
def test_wrong_settings_are_refused(words, options):
    with pytest.raises((ValueError, TypeError), match=words):
        Gates(**{"blocks": ["a"]} | options)


def test_a_shortcut_must_be_there_and_fit():
    with pytest.raises(ValueError, match="'wider.away', which is not a module"):
        skipping(shortcuts=["", "wider.away"])
    model, schedule = skipping(shortcuts=())
    with schedule, pytest.raises(ValueError, match="give its shortcut's name in shortcuts"):
        model["wider"](model["same"](torch.randn(6, 3, 4, 4)))
