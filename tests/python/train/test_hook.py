"""Four gloo processes under DDP give the weights of `Workers`, bit for bit, at every step."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from apscope.train import Workers  # noqa: E402
from tests.python.train import ddp_job  # noqa: E402
from tests.python.train.jobs import SPECS, optimizer_of, run_job, topology_of  # noqa: E402

STEPS = 20
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)


def bits(tensor):
    return tensor.numpy().tobytes()


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The weights of a DDP job, after every step, by optimizer and spec."""
    folder = tmp_path_factory.mktemp("job")
    run_job(ddp_job, folder, STEPS, *SPECS)
    return torch.load(folder / "weights", weights_only=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("spec", SPECS)
def test_ddp_and_workers_give_the_same_weights(spec, optimizer, weights):
    m = ddp_job.model()
    o = optimizer_of(optimizer, m.parameters())
    w = Workers(
        m,
        F.cross_entropy,
        o,
        workers=ddp_job.RANKS,
        exchange=spec,
        topology=topology_of(spec),
        seed=5,
    )
    for step in range(STEPS):
        w.step(*ddp_job.batch(step))
        for name, mine, theirs in zip(
            m.state_dict(),
            m.state_dict().values(),
            weights[f"{optimizer} {spec}"][step],
            strict=True,
        ):
            assert bits(mine) == bits(theirs), (step, name)
