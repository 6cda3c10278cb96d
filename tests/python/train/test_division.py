"""Gloo processes: `divide` gives the bits of torch's compress hooks and of FSDP's."""

import numpy as np
import pytest

import apscope

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)
from torch.nn import functional as F  # noqa: E402

from apscope.train import Workers  # noqa: E402
from apscope.train._exchanger import Exchanger  # noqa: E402
from tests.python.train import division_job, fsdp_job  # noqa: E402
from tests.python.train.jobs import optimizer_of, run_job  # noqa: E402


def emulated(spec, rows, topology="ring"):
    """The mean over the workers, as a training loop gets it."""
    x = torch.stack(rows)
    out = torch.empty(x.shape[1])
    Exchanger(spec, {"x": (x.shape[1],)}, workers=len(rows), topology=topology).run([x], [out])
    return out.numpy()


def same(a, b):
    """The same bits, but for those of NaNs: processors give inf - inf either sign."""
    both = np.isnan(a) & np.isnan(b)
    return bool((both | (a.view(np.uint32) == b.view(np.uint32))).all())


def test_two_processes_under_ddp_have_the_bits_of_divide_before(tmp_path):
    run_job(division_job, tmp_path, 2)
    theirs = torch.load(tmp_path / "2", weights_only=True)
    rows = [division_job.gradient(rank) for rank in range(2)]
    for name in division_job.HOOKS:
        torch_gives = theirs[name].numpy()
        assert same(emulated(f"none:{name},divide=before", rows), torch_gives)
        assert not same(emulated(f"none:{name}", rows), torch_gives)
        e = apscope.exchange(f"none:{name},divide=before", torch.stack(rows).numpy())
        assert same((e.reduced / 2).astype(np.float32), torch_gives)
    fp16 = theirs["fp16"].numpy()
    assert fp16[2] == 6e4 and np.isinf(fp16[5])  # a sum without overflow; a cast with one


@pytest.mark.parametrize("ranks", [3, 4])
def test_processes_that_divide_twice_have_the_bits_of_divide_fsdp(ranks, tmp_path):
    run_job(division_job, tmp_path, ranks)
    theirs = torch.load(tmp_path / str(ranks), weights_only=True)["fsdp"].numpy()
    rows = [division_job.few_digits(rank) for rank in range(ranks)]
    for topology in ("ring", "tree"):
        assert same(emulated("none:fp16,divide=fsdp", rows, topology), theirs)
    assert not same(emulated("none:fp16,divide=before", rows), theirs)


def test_the_keyword_of_a_training_loop_divides_alike():
    """`divide="fsdp"` of `Workers` divides around any scheme; around `none:fp16` it is the key."""

    def weights(spec, divide):
        model = fsdp_job.model()
        loop = Workers(
            model,
            lambda y, target: 1e-5 * F.mse_loss(y, target),
            optimizer_of("adam", model.parameters()),
            workers=4, exchange=spec, topology="ring", divide=divide,
        )  # fmt: skip
        for step in range(5):
            loop.step(*fsdp_job.batch(step))
        return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()

    assert same(weights("none:fp16", "fsdp"), weights("none:fp16,divide=fsdp", True))
    assert not same(weights("none:fp16", True), weights("none:fp16,divide=fsdp", True))
