"""Two gloo processes under FSDP2 give the weights of `Workers`, bit for bit, over 20 steps."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils import clip_grad_norm_  # noqa: E402

from apscope.train import ExchangeState, Workers, exchange_fsdp  # noqa: E402
from apscope.train._exchanger import fsdp_factors  # noqa: E402
from tests.python.train.jobs import SPECS, optimizer_of, run_job, topology_of  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)
try:
    from tests.python.train import fsdp_job
except ImportError:
    pytest.skip("this PyTorch has no FSDP2", allow_module_level=True)

STEPS = 20


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The results of a job under FSDP2, by name."""
    folder = tmp_path_factory.mktemp("job")
    run_job(fsdp_job, folder, STEPS, *SPECS)
    return torch.load(folder / "weights", weights_only=True)


def workers(spec, optimizer="sgd", **options):
    m = fsdp_job.model()
    return Workers(
        m, F.mse_loss, optimizer_of(optimizer, m.parameters()), workers=fsdp_job.RANKS,
        exchange=spec, seed=5, batched=False, **options,
    )  # fmt: skip


def assert_same(mine, theirs, where):
    for name, tensor in mine.items():
        assert tensor.numpy().tobytes() == theirs[name].numpy().tobytes(), (where, name)


def follows(w, seen):
    for step in range(len(seen) * fsdp_job.EVERY):
        w.step(*fsdp_job.batch(step))
        if step % fsdp_job.EVERY == fsdp_job.EVERY - 1:
            assert_same(w.model.state_dict(), seen[step // fsdp_job.EVERY], step)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("spec", SPECS)
def test_fsdp_and_workers_give_the_same_weights(spec, optimizer, job):
    assert len(job[f"{optimizer} {spec}"]) == STEPS // fsdp_job.EVERY
    follows(workers(spec, optimizer, topology=topology_of(spec)), job[f"{optimizer} {spec}"])


@pytest.mark.parametrize(("name", "spec"), [("halves", "none:fp16"), ("aps halves", "aps:e4m3")])
def test_fp16_reductions_are_divided_as_fsdp_divides_them(name, spec, job):
    follows(workers(spec, topology="sequential", divide="fsdp"), job[name])


def test_without_a_scheme_fp16_is_what_fsdp_itself_gives(job):
    for step, (mine, theirs) in enumerate(zip(job["halves"], job["itself"], strict=True)):
        assert_same(mine, theirs, step)


def test_accumulated_gradients_are_exchanged_once_or_each(job):
    """Without synchronization they are added before the exchange, with it after it."""
    w = workers("aps:e4m3")
    w.backward(*fsdp_job.batch(0))
    w.backward(*fsdp_job.batch(1), accumulate=True)
    w.exchange()
    once = {name: p.grad.clone() for name, p in w.model.named_parameters()}
    assert_same(once, job["accumulated"]["once"], "once")

    w = workers("aps:e4m3")
    each = []
    for step in range(2):
        w.backward(*fsdp_job.batch(step))
        w.exchange()
        each.append([p.grad.clone() for p in w.model.parameters()])
    sums = [a + b for a, b in zip(*each, strict=True)]
    assert_same(dict(zip(once, sums, strict=True)), job["accumulated"]["each"], "each")


def test_a_limit_on_the_norm_is_one_of_the_whole_gradient(job):
    """FSDP2 adds the squares shard by shard: the norm may differ in its last bits."""
    w = workers("aps:e4m3")
    w.backward(*fsdp_job.batch(0))
    w.exchange()
    norm = clip_grad_norm_(w.model.parameters(), 0.1)
    assert norm > 0.1
    torch.testing.assert_close(job["clipped"]["norm"], norm, rtol=1e-6, atol=0)
    for name, p in w.model.named_parameters():
        torch.testing.assert_close(job["clipped"][name], p.grad, rtol=2e-6, atol=0)


def test_grad_scaler_skips_a_step_of_all_shards(job):
    """An infinity of one rank passes through the exchange into shards of both."""
    (before, scale), (at, halved), (after, last) = job["scaled"]
    assert (scale, halved, last) == (1024.0, 512.0, 512.0)
    assert_same(before, at, "skipped")
    assert all((after[name] != at[name]).any() for name in after)


def test_wrapped_parts_keep_the_names_of_their_parameters(job):
    w = workers(fsdp_job.WRAPPED)
    for step in range(3):
        w.step(*fsdp_job.batch(step))
    assert_same(w.model.state_dict(), job["wrapped"], "wrapped")


def test_a_parameter_that_is_not_used_is_exchanged_as_zeros(job):
    m = fsdp_job.Idle()
    w = Workers(
        m, lambda y, _: y.sum(), torch.optim.SGD(m.parameters(), lr=0.1),
        workers=fsdp_job.RANKS, exchange="aps:e4m3", batched=False,
    )  # fmt: skip
    rows = torch.ones(4, 4)
    rows[2:] = 2.0
    w.backward(rows, torch.zeros(4))
    w.exchange()
    assert_same({name: p.grad for name, p in m.named_parameters()}, job["idle"], "idle")
    assert m.weight.grad.any() and not m.idle.grad.any()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", "must be a model after fully_shard"),
        ("divided", "leave set_gradient_divide_factor"),
        ("hooked", "'3.weight': FSDP changed its gradient after the reduction"),
        ("fp16", "divide=True with a reduction in torch.float16; give divide='fsdp'"),
        ("fp32", "divide='fsdp' with a reduction in torch.float32"),
        ("unused", "4 of 8 parameters have no gradient, the first is '0.weight'"),
        ("one axis", "'weight' is placed as (Shard(dim=1),)"),
        ("two axes", "only parameters sharded along their first axis"),
    ],
)
def test_what_cannot_be_exchanged_is_refused(name, words, job):
    assert words in job["refused"][name]


def test_the_factors_of_a_division_are_those_of_fsdp():
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import _get_gradient_divide_factors

    class Group:
        def __init__(self, n):
            self.size = lambda: n

    for workers in (*range(1, 70), 96, 1000, 1024):
        theirs = _get_gradient_divide_factors(Group(workers), None, torch.float16)[:2]
        assert fsdp_factors(workers) == theirs
        before = fsdp_factors(workers)[0]
        fits = 2 ** next(k for k in range(20) if workers / 2**k <= 2**k)
        assert before == min(fits, (2 * workers) & -(2 * workers))


def test_arguments_of_other_kinds_are_refused():
    state = ExchangeState(None, "aps:e4m3")
    with pytest.raises(TypeError, match="model is int; it must be a torch.nn.Module"):
        exchange_fsdp(5, state)
    with pytest.raises(TypeError, match="state is str; it must be an ExchangeState"):
        exchange_fsdp(fsdp_job.model(), "aps:e4m3")


def test_a_division_of_another_name_is_refused():
    state = ExchangeState(None, "aps:e4m3", divide="mean")
    with pytest.raises(ValueError, match="divide='mean' is not one of True, False and 'fsdp'"):
        state._start({"x": (2,)}, 2)
