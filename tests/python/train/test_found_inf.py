"""A dynamic loss scale in training against torch's GradScaler, on gradients whose sum overflows."""

import pytest

torch = pytest.importorskip("torch")

from apscope.train import Workers  # noqa: E402
from tests.python.train import scaler_job  # noqa: E402
from tests.python.train.jobs import run_job  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_same_skips_and_weights_as_torch_for_50_steps(tmp_path, ranks):
    run_job(scaler_job, tmp_path, ranks)
    found = torch.load(tmp_path / "found", weights_only=True)
    m = scaler_job.model()
    w = Workers(
        m, scaler_job.loss_of, torch.optim.SGD(m.parameters(), lr=0.01), workers=ranks,
        exchange=scaler_job.SPEC,
    )  # fmt: skip
    steps = []
    for row in scaler_job.gradients(ranks):
        w.step(row.reshape(ranks, 1), torch.zeros(ranks))
        steps.append((w.skipped, m.weight.item()))
    assert steps == [(skipped, weight) for _, skipped, weight in found["torch"]]
    assert steps == [(skipped, weight) for _, skipped, weight in found["hook"]]
    # 10 S overflows in no worker at S = 4096, and 4 (or 2) of them do in the sum.
    assert [skipped for skipped, _ in steps[:3]] == (
        [True, True, False] if ranks == 4 else [True, False, False]
    )
    assert sum(skipped for skipped, _ in steps) >= 5
    scales = [scale for scale, *_ in found["torch"]]
    assert scales[0] == 4096 and len(set(scales)) > 1
