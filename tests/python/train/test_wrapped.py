"""Models wrapped by DDP, `torch.compile` or checkpointing give the bits of `Workers`; plans,
schedules."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Workers  # noqa: E402
from tests.python.recorded import record  # noqa: E402
from tests.python.train import wrapped_job as job  # noqa: E402
from tests.python.train.jobs import run_job  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)


@pytest.fixture(scope="module")
def plan(tmp_path_factory, request):
    """Two schemes, which the layers of the job's model share out between them."""
    folder = tmp_path_factory.mktemp("plan")
    g = torch.Generator().manual_seed(0)
    steps = [
        {name: (torch.randn((job.RANKS, *p.shape), generator=g) * 10.0 ** (-4 * i)).numpy()
         for i, (name, p) in enumerate(job.model().named_parameters())}
        for _ in range(2)
    ]  # fmt: skip
    made = apscope.recommend(
        record(folder / "trace", steps, loss=1.0),
        ["none:e4m3", "none:bf16"],
        minimize="error_over_noise",
        max_volume=0.4,
    )
    assert made.layers["scheme"].nunique() == 2
    made.save(folder / "plan.json")
    return folder / "plan.json"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, plan):
    folder = tmp_path_factory.mktemp("job")
    run_job(job, folder, plan)
    return [torch.load(folder / f"found{n}", weights_only=True) for n in range(job.RANKS)]


def trained(spec=job.SPEC, ranks=job.RANKS, make=job.model, wrap=job.same, **options):
    m = make()
    w = Workers(
        wrap(m), F.cross_entropy, torch.optim.SGD(m.parameters(), lr=0.1), workers=ranks,
        exchange=spec, topology="ring", seed=5, **{"batched": False, **options},
    )  # fmt: skip
    for step in range(job.STEPS):
        w.step(*job.batch(step))
    return [p.detach().clone() for p in m.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", job.CASES)
def test_however_ddp_holds_a_model_its_weights_are_those_of_workers(name, ranks):
    wanted = trained(make=job.CASES[name][0])
    assert all(same(found[name], wanted) for found in ranks)


def test_the_ranks_of_a_group_are_the_workers(ranks):
    wanted = trained(ranks=2)
    assert all(same(found["subgroup"], wanted) for found in ranks)


def test_a_plan_of_layers_is_exchanged_in_both_loops(ranks, plan):
    wanted = trained(str(plan))
    assert same(trained(apscope.Plan.open(plan)), wanted)
    assert all(same(found["plan"], wanted) for found in ranks)
    assert not same(wanted, trained("none:e4m3")) and not same(wanted, trained("none:bf16"))


def test_a_schedule_over_steps_goes_on_after_a_resume(ranks):
    wanted = trained(job.SCHEDULE)
    assert all(same(found["schedule"], wanted) for found in ranks)
    assert not same(wanted, trained("error_feedback(aps:e3m0)"))
    assert not same(wanted, trained("none:bf16"))


@pytest.mark.parametrize(
    ("wrap", "batched"), [(job.compiled, False), (job.compiled, True), (job.checkpointed, False)]
)
def test_workers_take_a_wrapped_model_under_the_names_of_its_own(wrap, batched):
    assert same(trained(wrap=wrap, batched=batched), trained(batched=batched))


def test_gradients_have_the_names_of_the_model_itself():
    m = job.checkpointed(job.model())
    w = Workers(
        m, F.cross_entropy, torch.optim.SGD(m.parameters(), lr=0.1), workers=4, batched=False
    )
    w.backward(*job.batch(0))
    assert list(w.gradients) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert next(m.named_parameters())[0] == "0._checkpoint_wrapped_module.weight"


def test_a_model_that_cannot_be_batched_names_the_remedy():
    with pytest.raises(RuntimeError) as caught:
        trained(wrap=job.checkpointed, batched=True)
    assert "give batched=False for a model that it cannot run" in caught.value.__notes__[0]
