"""Expected bias and variance, in closed form or sampled (--draws K), against many draws."""

import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.python.scheme_cases import cases

DRAWS = 40


def test_draws_change_no_other_column(request):
    """Rows that draw nothing have their bias and no variance."""
    digits = request.config.rootpath / "notebooks/data/digits"
    schemes = [
        "stochastic:e4m3",
        "qsgd",
        "aps:e4m3,rounding=stochastic,hop_rounding=ties_to_even,accumulate=fp32",
        "aps:e4m3",
    ]
    options = {"topology": "ring", "steps": "0:3"}
    frame = apscope.replay(digits, schemes, draws=DRAWS, **options).frame
    once = apscope.replay(digits, schemes, **options).frame
    sampled = [c for c in frame.columns if c.startswith("expected_")]
    assert frame.drop(columns=sampled).equals(once.drop(columns=sampled))
    gathered = once[once["topology"] == "gather"]
    assert len(gathered) and gathered["expected_bias"].isna().all()
    certain = frame[frame["scheme"] == "aps:e4m3"]
    assert (certain["expected_bias"] == certain["bias"]).all()
    assert (certain["expected_variance"] == 0).all()


def test_stochastic_hops_add_their_conditional_variances(tmp_path):
    """Along every topology: unbiased, and the estimate's mean over the paths is the variance
    drawn."""
    draws, rng = 80, np.random.default_rng(7)
    # Multiples of 2^-20 below 1, of which sums of a few are exact in every order.
    g = (rng.integers(-(2**20), 2**20, (6, 150)) >> rng.integers(0, 16, 150)) * 2.0**-20
    trace = record(tmp_path / "t", [{"g": np.float32(g)}])
    topologies = ["sequential", "ring", "tree"]
    frames = [
        apscope.replay(
            trace, "aps:e4m3,rounding=stochastic", topology=topologies, seed=seed
        ).frame.iloc[1:]
        for seed in range(draws)
    ]
    for row, topology in enumerate(["exact", *topologies]):
        assert frames[0].topology.iloc[row] == topology
        bias, mse, estimate = (
            np.array([f[c].iloc[row] for f in frames]) for c in ("bias", "mse", "expected_variance")
        )
        for difference in (bias, mse - estimate):
            t = difference.mean() / (difference.std(ddof=1) / np.sqrt(draws))
            assert abs(t) < 5.5, topology


# Schemes on whole tensors
# -------------------------------------------------------------------------------------------


WORKERS, ELEMENTS = 4, 333
#: the second step of each, from the state that draw 0 of the first left
WHOLE = [
    "error_feedback(qsgd)", "error_feedback(stochastic:e4m3)",
    "error_feedback(aps:e3m0,rounding=stochastic)", "birder", "birder:group=2",
    "nvfp4", "nvfp4:four_over_six=mse", "nvfp4:rht=false,agree=local", "residual(qsgd:levels=3)",
    "residual(stochastic:e3m0),points=3",
    "bit_centering:bits=4", "bit_centering:bits=4,period=1", "terngrad", "zipml:levels=4",
    "qsgd:code=elias", "mx:block_format=mxfp4,rounding=stochastic",
    "integer_allreduce:bits=8,rounding=stochastic", "aps:e3m2,unit=50,rounding=stochastic",
    "aps:e3m2,unit=50,hop_rounding=stochastic",
    "current_scaling:e4m3,agree=local,rounding=stochastic",
]  # fmt: skip


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory):
    rng = np.random.default_rng(5)
    g = (rng.standard_normal((2, WORKERS, ELEMENTS)) * 2.0 ** rng.integers(-6, 1, ELEMENTS)).astype(
        np.float32
    )
    trace = record(tmp_path_factory.mktemp("two") / "trace", [{"x": rows} for rows in g])
    return trace, g


def sampled_by_hand(spec, g, topology, seeds):
    """Step 1 under other seeds, from the state that step 0 leaves under seed 0: (seeds, ...) of
    what was sent and of the mean."""
    state = apscope.exchange(spec, g[0], topology=topology).state
    made = [
        apscope.exchange(spec, g[1], topology=topology, state=state, step=1, seed=seed)
        for seed in seeds
    ]
    return np.stack([e.sent for e in made]), np.stack([e.reduced for e in made]) / WORKERS


@pytest.mark.parametrize("spec", WHOLE)
def test_expected_columns_are_what_many_seeds_give(two_steps, spec):
    """Bias and variance, given the state, against the row's own truth; where nothing is sampled,
    without --draws too."""
    trace, g = two_steps
    frame = apscope.replay(trace, spec, topology="tree", draws=DRAWS).frame.query("step == 1")
    once = apscope.replay(trace, spec, topology="tree").frame.query("step == 1")
    assert frame.expected_bias.notna().all() and frame.expected_variance.notna().all()
    closed = frame.expected_bias_error.isna()
    assert (
        once.expected_bias[closed].equals(frame.expected_bias[closed])
        and once.expected_bias[~closed].isna().all()
    )
    sent, mean = sampled_by_hand(spec, g, "tree", range(1000, 1300))
    for row in frame.itertuples():
        if row.topology == "" or row.topology == "exact":
            drawn = sent if row.stage == "wire" else sent.sum(axis=1) / WORKERS
        else:
            drawn = mean
        # The row's own draw is draw 0; its bias says against what.
        own = sampled_by_hand(spec, g, "tree", [0])[0 if row.topology in ("", "exact") else 1]
        own = own[0].sum(axis=0) / WORKERS if row.topology == "exact" else own[0]
        truth = own.mean() - row.bias  # the mean of the truth
        biases = drawn.reshape(len(drawn), -1).mean(axis=1) - truth
        error = np.hypot(
            biases.std(ddof=1) / np.sqrt(len(biases)),
            0 if np.isnan(row.expected_bias_error) else row.expected_bias_error,
        )
        assert abs(row.expected_bias - biases.mean()) <= 5 * error + 1e-12, (
            row.stage,
            row.topology,
        )
        variances = drawn.reshape(len(drawn), -1).var(axis=0, ddof=1)
        # Standard error of a mean of sample variances, from halves of the seeds.
        halves = [
            part.reshape(len(part), -1).var(axis=0, ddof=1).mean() for part in np.split(drawn, 10)
        ]
        error = np.hypot(
            np.std(halves, ddof=1) / np.sqrt(10),
            0 if np.isnan(row.expected_variance_error) else row.expected_variance_error,
        )
        assert abs(row.expected_variance - variances.mean()) <= 6 * error + 1e-15, (
            row.stage,
            row.topology,
        )


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("spec", ["nvfp4", "thc"])
def test_rotations_have_closed_forms_at_every_length(spec, n):
    """Every element is a sum of its group's: the variance of each is the mean of the group's
    variances. thc's are those of the rounding under the step's rotation, whose signs depend on the
    seed too; so each draw is held to its own."""
    g = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    left, over = [], []
    for seed in range(2000):
        e = apscope.exchange(spec, g, seed=seed)
        left.append(e.sent - g - e.bias)
        over.append(left[-1] ** 2 - e.variance)
    for z in (np.array(left), np.array(over)):
        assert (
            np.abs(z.mean(axis=0)) <= 5 * z.std(axis=0, ddof=1) / np.sqrt(2000) + 1e-7
        ).all()  # what is all but certain may go unseen


def test_every_scheme_that_draws_is_sampled_where_it_has_no_closed_form(two_steps):
    """Rows that stay empty: skipped steps, and pairs that are not finite."""
    trace, _ = two_steps
    specs = [case.spec for case in cases() if not case.needs]
    frame = apscope.replay(trace, specs, topology=["ring", "sequential+kahan"], draws=3).frame
    whole = frame[~frame.skipped & (frame.counted == frame["count"])]
    assert len(whole) > 0.9 * len(frame)
    assert whole.expected_bias.notna().all() and whole.expected_variance.notna().all()
    assert (whole.expected_bias_error.isna() == whole.expected_variance_error.isna()).all()


def test_a_centre_that_bit_centering_sends_draws_nothing(two_steps):
    frame = apscope.replay(two_steps[0], "bit_centering:period=1", topology="ring").frame
    assert (frame.expected_bias == frame.bias).all() and (frame.expected_variance == 0).all()
