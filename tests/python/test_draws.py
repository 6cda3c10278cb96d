"""Sampled moments (--draws K) against the closed forms of the exact row, which they must meet."""

import numpy as np
import pytest

import apscope

DRAWS = 40


@pytest.fixture(scope="module")
def frame(request):
    trace = str(request.config.rootpath / "notebooks/data/digits")
    schemes = ["stochastic:e4m3", "qsgd", "aps:e4m3,rounding=stochastic,hop_rounding=ties_to_even,accumulate=fp32", "aps:e4m3"]
    return apscope.replay(trace, schemes, topology="ring", steps="0:3", draws=DRAWS).frame


def rows(frame, scheme, topology):
    chosen = frame[frame["scheme"].str.startswith(scheme) & (frame["topology"] == topology)]
    assert len(chosen) == 18  # 3 steps x 6 tensors
    return chosen


@pytest.mark.parametrize(("scheme", "topology"), [("stochastic", "gather"), ("qsgd", "gather"), ("aps:e4m3,rounding", "ring")])
def test_sampled_moments_meet_the_closed_forms(frame, scheme, topology):
    # fp32 sums of a few decoded values change them by 2^-24 at most: nothing beside these moments.
    sampled, exact = rows(frame, scheme, topology), rows(frame, scheme, "exact")
    assert exact["expected_bias_error"].isna().all()
    z_bias = (sampled["expected_bias"].to_numpy() - exact["expected_bias"].to_numpy()) / sampled["expected_bias_error"].to_numpy()
    z_variance = (sampled["expected_variance"].to_numpy() / exact["expected_variance"].to_numpy() - 1) / (
        sampled["expected_variance_error"].to_numpy() / exact["expected_variance"].to_numpy()
    )
    # 18 values of Student's t with 39 degrees of freedom: |t| > 5 has probability 2e-4 in all.
    assert np.abs(z_bias).max() < 5
    assert np.abs(z_variance).max() < 5
    # And the standard errors are of the right size: variance of the mean error over n elements.
    n = sampled["count"].to_numpy(float)
    expected_error = np.sqrt(exact["expected_variance"].to_numpy() / n / DRAWS)
    ratio = sampled["expected_bias_error"].to_numpy() / expected_error
    assert 0.4 < ratio.min() and ratio.max() < 2.0  # chi over sqrt(39): outside with probability < 1e-6


def test_draws_change_no_other_column(frame, request):
    trace = str(request.config.rootpath / "notebooks/data/digits")
    once = apscope.replay(trace, list(dict.fromkeys(frame["scheme"])), topology="ring", steps="0:3").frame
    sampled = [c for c in frame.columns if c.startswith("expected_")]
    assert frame.drop(columns=sampled).equals(once.drop(columns=sampled))
    assert rows(once, "stochastic", "gather")["expected_bias"].isna().all()


def test_deterministic_rows_have_their_bias_and_no_variance(frame):
    chosen = frame[frame["scheme"] == "aps:e4m3"]
    assert (chosen["expected_bias"] == chosen["bias"]).all()
    assert (chosen["expected_variance"] == 0).all()


def test_stochastic_hops_add_conditional_variances(request):
    """Over many seeds the drawn mean squared error meets expected variance + squared bias."""
    trace = str(request.config.rootpath / "notebooks/data/digits")
    scheme = "aps:e5m2,rounding=stochastic,overflow=saturate"
    mse, variance = [], []
    for seed in range(60):
        f = apscope.replay(trace, scheme, topology="tree", steps="5:6", tensors="conv2", seed=seed).frame
        row = f[f["topology"] == "tree"].iloc[0]
        mse.append(row["mse"])
        variance.append(row["expected_variance"])
    difference = np.array(mse) - np.array(variance)  # E = mean squared conditional bias, far below
    t = difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference)))
    assert abs(t) < 5
    assert np.std(variance) / np.mean(variance) < 0.1
