"""Correlated random words (docs/definitions.md, section 7): bit for bit against an independent
implementation, and what every scheme that draws gains."""

import numpy as np
import pytest

import apscope
from apscope import _core
from tests.python.recorded import record
from tests.python.schemes.test_two_phase import inputs
from tests.reference.compare import same
from tests.reference.random_words import places, replay_key
from tests.reference.schemes import Scheme, divided, encode_floats, qsgd_decoded, scales

SIZES = [(1, 9), (2, 40), (3, 33), (8, 1300), (12, 5), (2, 0)]


def with_key() -> list[str]:
    """Every definition that has the key, at settings at which its messages draw; without `dynamiq`,
    whose key is true by default: it rounds sums, hop by hop."""
    specs = []
    for definition in _core.scheme_definitions():
        keys = {name: default for name, default, _ in definition["keys"]}
        spec = definition["name"] + (":e5m2" if definition["takes_format"] else ":")
        if keys.get("rounding", "stochastic") != "stochastic":
            spec += ",rounding=stochastic"
        if keys.get("correlated") == "false":
            specs.append(spec.replace(":,", ":"))
    return specs


def correlated(spec: str) -> str:
    return spec + ("" if spec.endswith(":") else ",") + "correlated=true"


def test_the_references_places_are_permutations():
    for workers in (1, 2, 5, 9):
        of_elements = places((3, 4), 50, workers)
        assert (np.sort(of_elements, axis=0) == np.arange(workers)[:, None]).all()
    assert len({tuple(p) for p in places((3, 4), 200, 3).T}) == 6


@pytest.mark.parametrize(
    "spec",
    [
        "none:e4m3,rounding=stochastic,overflow=saturate",
        "none:e3m0,rounding=stochastic_b,random_bits=17",
        "aps:e4m3,rounding=stochastic,random_bits=7",
        "aps:e3m0,rounding=stochastic,random_bits=64,divide=2",
        "loss_scaling:e5m2,rounding=stochastic,random_bits=1",
        "qsgd:levels=3,bucket=16",
        "qsgd:levels=7,random_bits=53",
    ],
)
def test_messages_are_those_of_the_definition(spec):
    scheme, key = Scheme.parse(correlated(spec)), replay_key(5, "x", 0)
    for workers, n in SIZES:
        g = inputs("random", workers, n)
        sent = apscope.exchange(correlated(spec), g, seed=5).sent
        if scheme.name == "qsgd":
            wanted = qsgd_decoded(g, scheme, key)[0]
        else:
            scale, _ = scales(scheme, {0: {"x": g}})[0, "x"]
            codes = divided(encode_floats(g, scale, scheme, key)[0], scheme, key)
            wanted = codes * scheme.divisors(workers)[0] / scale
        assert same(sent, wanted), (workers, n)


@pytest.mark.parametrize("spec", with_key())
def test_the_sum_of_equal_rows_varies_less(spec):
    """Of W equal rows whose value lies at a share f between two values, floor(W f) or one more are
    rounded up. The variance of their number is at most 1/4, that of independent words W f (1 - f):
    the mean over f is W times as large. Schemes that round twice, or a mean, gain less."""
    x = np.tile(inputs("random", 1, 64) * 2.0**-10, (8, 1))
    given = {"loss": 1.0, "full_batch": x[0] / 2}

    def variance(of: str) -> float:
        state = apscope.exchange(of, -x / 3, **given).state  # birder's first messages are certain
        sums = [
            np.sum(apscope.exchange(of, x, seed=seed, step=1, state=state, **given).sent, axis=0)
            for seed in range(30)
        ]
        return float(np.var(sums, axis=0, ddof=1).sum())

    independent, stratified = variance(spec.removesuffix(":")), variance(correlated(spec))
    assert 0 < stratified < 0.5 * independent


def test_the_variance_of_unequal_values():
    """Docs/definitions.md, section 7: W/12 + 1/(12 W) instead of W/6, of shares that are uniform."""
    workers, spec = 6, "none:e2m5,rounding=stochastic"
    step = 2.0**-5  # below 2, the format's numbers are multiples
    x = np.random.default_rng(0).uniform(0, 2, (workers, 20000)).astype(np.float32)

    def mean_square(spec: str) -> float:
        errors = apscope.exchange(spec, x, seed=1).sent - x
        return float(np.mean((errors.sum(axis=0) / step) ** 2))

    assert mean_square(spec) == pytest.approx(workers / 6, rel=0.03)
    wanted = workers / 12 + 1 / (12 * workers)
    assert mean_square(correlated(spec)) == pytest.approx(wanted, rel=0.03)


def test_the_words_of_two_phases_are_those_of_the_messages_that_are_added():
    x, spec = inputs("random", 6, 77), "none:e3m2,rounding=stochastic"
    ring, both = (apscope.exchange(correlated(spec), x, topology=t) for t in ("ring", "two_phase"))
    assert same(both.sent, ring.sent)
    assert not same(both.sent, apscope.exchange(spec, x).sent)
    # An owner's message is not added to another.
    owners = apscope.exchange(correlated(spec), x, topology=f"two_phase,phase2=({spec})")
    assert same(both.reduced, owners.reduced)


def test_a_group_of_a_hierarchy_has_its_own_places():
    x = inputs("random", 6, 30)
    spec = "none:e3m2,rounding=stochastic,correlated=true"
    found = apscope.exchange(spec, x, topology="hierarchical:3(two_phase,two_phase)")
    up = (found.sent - x > 0).reshape(2, 3, -1)
    assert not same(up[0], up[1])


@pytest.mark.parametrize("topology", ["ring", "two_phase"])
def test_a_replay_knows_the_variance_of_the_sum_from_draws_alone(tmp_path, topology):
    trace = record(tmp_path / "t", [{"w": np.tile(inputs("random", 1, 300), (4, 1))}])
    specs = ["aps:e3m2,rounding=stochastic", "aps:e3m2,rounding=stochastic,correlated=true"]

    def rows(stage: str, at: str, **options) -> list:
        frame = apscope.replay(trace, specs, topology=topology, **options).frame
        chosen = frame[(frame.stage == stage) & (frame.topology == at)]
        return [chosen[chosen.scheme == spec].expected_variance.iloc[0] for spec in specs]

    one, same_one = rows("wire", "")
    assert one == same_one > 0
    closed, unknown = rows("reduced", "exact")
    assert closed == pytest.approx(one / 4) and np.isnan(unknown)
    _, sampled = rows("reduced", "exact", draws=20)
    assert 0 < sampled < 0.6 * closed


@pytest.mark.parametrize("spec", ["aps:e4m3", "mx", "integer_allreduce:rounding=ties_to_even"])
def test_schemes_that_draw_nothing_refuse_it(spec):
    name = spec.partition(":")[0]
    with pytest.raises(
        ValueError, match=f"^scheme '{name}' draws no random words for its messages, so "
        "correlated=true does not apply to it; give rounding=stochastic, or leave correlated out$",
    ):  # fmt: skip
        apscope.exchange(correlated(spec + (":" if spec == "mx" else "")), np.ones((2, 4)))


def test_the_key_is_true_or_false():
    with pytest.raises(ValueError, match="^correlated=yes is not one of false, true"):
        apscope.exchange("stochastic:e4m3,correlated=yes", np.ones((2, 4)))
    assert apscope.schemes.Stochastic("e4m3", correlated=True).spec == (
        "stochastic:e4m3,correlated=true"
    )
