"""Accumulation, clipping and GradScaler under DDP: the input of the exchange, bit for bit."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils import clip_grad_norm_  # noqa: E402

from apscope.train import Workers, cpd  # noqa: E402
from tests.python.train import loop_job  # noqa: E402
from tests.python.train.jobs import run_job  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    run_job(loop_job, folder)
    return [torch.load(folder / f"found{n}", weights_only=True) for n in range(loop_job.RANKS)]


def workers(spec="aps:e3m2", **options):
    m = loop_job.model()
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    return Workers(
        m, F.mse_loss, o, workers=loop_job.RANKS, exchange=spec, seed=5, batched=False, **options
    )


def grads(w):
    return {name: p.grad.clone() for name, p in w.model.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_ranks_have_the_same_bits(ranks):
    for name in ranks[0]:
        if name not in ("overflowing", "dropped"):
            assert same(ranks[0][name], ranks[1][name]), name


@pytest.mark.parametrize("divide", [True, False, "fsdp"])
def test_sums_are_divided_as_workers_divide_them(divide, ranks):
    w = workers(divide=divide)
    w.backward(*loop_job.batch(0))
    w.exchange()
    assert same(grads(w), ranks[0][f"divide={divide}"])
    whole = ranks[0]["divide=False"]
    halved = {name: g / loop_job.RANKS for name, g in whole.items()}
    assert same(halved, ranks[0]["divide=True"]) and not same(halved, ranks[0]["divide=fsdp"])


def test_no_sync_adds_before_the_exchange(ranks):
    w = workers()
    w.backward(*loop_job.batch(0))
    w.backward(*loop_job.batch(1), accumulate=True)
    w.exchange()
    assert same(grads(w), ranks[0]["no_sync"])


def test_a_second_synchronized_backward_exchanges_the_first_result_again(ranks):
    """DDP's buckets have what `grad` has: the exchanged gradient of before, and the new one."""
    w = workers()
    w.backward(*loop_job.batch(0))
    w.exchange()
    first = grads(w)
    w.backward(*loop_job.batch(1))
    for name, rows in w.gradients.items():
        w.gradients[name] = rows + first[name].reshape(1, -1)
    w.exchange()
    assert same(grads(w), ranks[0]["synchronized"])
    assert not same(grads(w), ranks[0]["no_sync"])


def test_a_loop_clips_after_the_exchange(ranks):
    w = workers()
    w.backward(*loop_job.batch(0))
    w.exchange()
    norm = clip_grad_norm_(w.model.parameters(), 0.1)
    assert norm > 0.1 and same(grads(w), ranks[0]["clipped after"])


def test_hooks_of_tensors_clip_before_the_exchange(ranks):
    w = workers()
    w.backward(*loop_job.batch(0))
    assert any((rows.abs() > 0.01).any() for rows in w.gradients.values())
    for name, rows in w.gradients.items():
        w.gradients[name] = rows.clamp(-0.01, 0.01)
    w.exchange()
    assert same(grads(w), ranks[0]["clipped before"])


def test_a_loss_scale_is_nothing_to_aps_and_something_to_a_fixed_scale(ranks):
    """With 2^12 the gradients are scaled exactly, and so is the scale derived from the largest."""
    assert same(ranks[0]["aps:e3m2 None"], ranks[0]["aps:e3m2 4096.0"])
    assert not same(ranks[0]["none:e4m3 None"], ranks[0]["none:e4m3 4096.0"])
    w = workers("aps:e3m2")
    for step in range(3):
        w.step(*loop_job.batch(step))
    assert same(dict(w.model.named_parameters()), ranks[0]["aps:e3m2 None"])


def test_the_memory_is_of_scaled_gradients(ranks):
    w = workers("error_feedback(aps:e3m2)")
    w.step(*loop_job.batch(0))
    memory = w.state_dict()["exchange"]["memory"]
    mine = {f"{n} {k}": v * 1024 for n, r in memory.items() for k, v in r.items()}
    assert mine and same(mine, ranks[0]["overflowing"][0]["memory"])


def test_grad_scaler_skips_on_every_rank_and_the_memory_moves_on(ranks):
    """An infinity of one rank passes through the exchange; finite values go into the memory."""
    for seen in (r["overflowing"] for r in ranks):
        before, at, after = seen
        assert same(before["weights"], at["weights"]) and not same(at["weights"], after["weights"])
        assert (before["scale"], at["scale"]) == (1024.0, 512.0)
        assert all(row.isfinite().all() for row in at["memory"].values())
        assert not same(before["memory"], at["memory"])
        assert same(at["weights"], ranks[0]["overflowing"][1]["weights"])


def test_grad_scaler_does_not_notice_a_step_that_the_scheme_drops(ranks):
    for gradients, skipped, scale, stepped in (r["dropped"] for r in ranks):
        assert skipped and scale == 1024.0 and stepped
        assert not any(g.any() for g in gradients.values())


@pytest.mark.parametrize(("aps", "kahan"), loop_job.CPD)
def test_two_levels_of_cpd_over_processes_are_those_of_workers(aps, kahan, ranks):
    batches = 4
    m = loop_job.model()
    w = Workers(
        m, lambda y, t: F.mse_loss(y, t) / (loop_job.RANKS * batches),
        torch.optim.SGD(m.parameters(), lr=0.1), workers=loop_job.RANKS,
        exchange=f"cpd:e4m3,aps={str(aps).lower()},kahan={str(kahan).lower()}",
        node=cpd.EmulatedNode(batches, aps, 4, 3), divide=False, batched=False,
    )  # fmt: skip
    w.backward(*loop_job.batch(0))
    w.exchange()
    assert same(grads(w), ranks[0][f"cpd {aps} {kahan}"])
