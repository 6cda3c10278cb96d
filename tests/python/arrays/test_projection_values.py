"""Projection: a value like any other; and the one place that reads projections and their parts."""

import dataclasses
import inspect
import json
import pickle

import numpy as np
import pytest

import apscope
from apscope import Projection, _core, conformance, machine
from apscope._arrays.options import CastOptions, Options, RoundingOptions
from apscope.schemes import Scheme

X = np.linspace(-500, 500, 301).astype(np.float32)
SMALL = X / 300
ODD = Projection("to_odd", overflow="saturate")
#: Every function that rounds, called with some options, and what a part of these may not be there.
CALLS = {
    "quantize": lambda **o: apscope.quantize(X, "e4m3", **o),
    "encode": lambda **o: apscope.encode(X, "e4m3", **o),
    "add": lambda **o: apscope.add(X, 0.3, "e4m3", **o),
    "subtract": lambda **o: apscope.subtract(X, 0.3, "e4m3", **o),
    "multiply": lambda **o: apscope.multiply(X, 0.3, "e4m3", **o),
    "divide": lambda **o: apscope.divide(X, 0.3, "e4m3", **o),
    "sqrt": lambda **o: apscope.sqrt(X, "e4m3", **o),
    "fma": lambda **o: apscope.fma(X, 0.3, 0.7, "e4m3", **o),
    "sum": lambda **o: apscope.sum(SMALL.reshape(7, 43), "e4m3", axis=0, **o),
    "dot": lambda **o: apscope.dot(
        SMALL[:60].reshape(6, 10), SMALL[40:100].reshape(6, 10), "e4m3", **o
    ),
    "matmul": lambda **o: apscope.matmul(
        SMALL[:60].reshape(6, 10), SMALL[130:190].reshape(10, 6), "e4m3", **o
    ),
    "allreduce": lambda **o: apscope.allreduce(
        X[:300].reshape(3, 100), "e4m3", topology="ring", **o
    ),
    "cast_statistics": lambda **o: np.array(
        list(dataclasses.astuple(apscope.cast_statistics(X, "e4m3", **o))), float
    ),
    "quantize_blocks": lambda **o: apscope.quantize_blocks(X, "mxfp8_e4m3", **o),
    "encode_blocks": lambda **o: apscope.encode_blocks(X, "mxfp8_e4m3", **o).codes,
}


def test_it_is_a_value():
    p = Projection("stochastic", overflow="saturate", random_bits=8)
    assert (
        p
        == Projection(rounding="stochastic", random_bits=8, overflow="saturate")
        != Projection("stochastic")
    )
    assert (
        len(
            {
                p,
                eval(repr(p)),
                pickle.loads(pickle.dumps(p)),
                Projection.from_json(p.to_json()),
                Projection(**json.loads(json.dumps(p.to_dict()))),
            }
        )
        == 1
    )
    assert (
        repr(p) == "Projection('stochastic', overflow='saturate', random_bits=8)"
        and repr(Projection()) == "Projection('ties_to_even')"
    )
    assert str(p) == "stochastic, 8 random bits, overflow saturate" and str(
        Projection(underflow="flush_both", keep_payload=True)
    ).endswith("underflow flush_both, payloads of NaN kept")
    assert dataclasses.replace(p, random_bits=16).random_bits == 16
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.rounding = "to_odd"
    assert p.to_dict() == {
        "rounding": "stochastic",
        "overflow": "saturate",
        "underflow": "gradual",
        "keep_payload": False,
        "random_bits": 8,
    }


def test_other_names_of_a_rule_are_the_same_value():
    assert Projection("stochastic_a", overflow="saturate_finite") == Projection(
        "stochastic", overflow="saturate"
    )
    assert Projection(overflow="saturate_propagate").overflow == "propagate"


#: The names in RISC-V, IEEE 754, P3109, NumPy, MPFR and common use.
SPOKEN = {
    "ties_to_even": "RNE rne roundTiesToEven NearestTiesToEven nearest_even half-even",
    "ties_to_away": "RNA RMM roundTiesToAway NearestTiesToAway",
    "toward_zero": "RTZ rtz roundTowardZero TowardZero truncate trunc RNDZ",
    "toward_positive": "RUP roundTowardPositive TowardPositive ceil RNDU",
    "toward_negative": "RDN roundTowardNegative TowardNegative floor RNDD", "to_odd": "ToOdd RTO",
    "stochastic": "SR sr StochasticA",
    "stochastic_b": "StochasticB", "ties_to_zero": "Ties-to-Zero", "away_from_zero": "AwayFromZero",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "word"), [(name, word) for name, words in SPOKEN.items() for word in words.split()]
)
def test_words_that_people_type_are_known_everywhere(name, word):
    assert Projection(word) == Projection(name)
    assert apscope.quantize(0.3, "e4m3", rounding=word, seed=1) == apscope.quantize(
        0.3, "e4m3", rounding=name, seed=1
    )
    aps = apscope.schemes.APS("e4m3", rounding=word)
    assert aps == apscope.schemes.APS("e4m3", rounding=name) == Scheme(f"aps:e4m3,rounding={word}")
    assert Scheme(f"aps:e4m3,hop_rounding={word}").keys["hop_rounding"] == name
    assert np.array_equal(
        *(
            apscope.allreduce(SMALL[:300].reshape(3, 100), "e4m3", hop_rounding=r)
            for r in (word, name)
        )
    )
    if not name.startswith(("stochastic", "to_odd")):
        assert machine.verify("e2m1", word)[0].rounding == name


def test_every_rounding_is_its_own_word():
    assert [
        _core.rounding_word(name.upper().replace("_", "-")) for name in _core.rounding_modes()
    ] == _core.rounding_modes()


@pytest.mark.parametrize("word", ["nearest", "round_to_nearest", "RN", "rtn"])
def test_a_word_that_leaves_ties_open_says_so(word):
    for call in (
        lambda: Projection(word),
        lambda: Scheme(f"mx:rounding={word}"),
        lambda: apscope.quantize(X, "e4m3", rounding=word),
    ):
        with pytest.raises(
            ValueError,
            match=f"unknown rounding '{word}', which does not say where ties go; use ties_to_even, "
            "IEEE 754's default",
        ):
            call()


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [
        (
            {"rounding": "ties_to_evne"},
            ValueError,
            r"unknown rounding 'ties_to_evne'; did you mean ties_to_even\?",
        ),
        ({"rounding": "up"}, ValueError, "unknown rounding 'up'; use one of ties_to_even"),
        ({"overflow": "wrap"}, ValueError, "unknown overflow 'wrap'"),
        ({"underflow": "none"}, ValueError, "unknown underflow 'none'"),
        ({"rounding": 3}, TypeError, "rounding=3 must be a string"),
        ({"keep_payload": 1}, TypeError, "keep_payload=1 must be True or False"),
        ({"random_bits": 65}, ValueError, "random_bits=65 is not between 1 and 64"),
        ({"random_bits": True}, TypeError, "random_bits=True must be an integer, not a bool"),
        ({"rounding": "stochastic_b", "random_bits": 63}, ValueError, "62"),
    ],
)
def test_wrong_parts_are_refused_in_a_sentence(parts, error, words):
    with pytest.raises(error, match=words) as caught:
        Projection(**parts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_whole_or_in_parts_it_does_the_same(name):
    call, known = CALLS[name], inspect.signature(getattr(apscope, name)).parameters
    for projection in (
        ODD,
        Projection("stochastic", random_bits=5),
        Projection(
            "toward_zero", overflow="propagate", underflow="flush_result", keep_payload=True
        ),
    ):
        # Parts that this function does not know stay as they are.
        projection = dataclasses.replace(
            projection,
            **{
                part: known_default
                for part, known_default in (("underflow", "gradual"), ("keep_payload", False))
                if part not in known
            },
        )
        parts = {part: value for part, value in projection.to_dict().items() if part in known}
        np.testing.assert_array_equal(call(projection=projection, seed=3), call(seed=3, **parts))
    assert not np.array_equal(call(projection=ODD), call(rounding="toward_zero"), equal_nan=True)


@pytest.mark.parametrize("name", CALLS)
def test_both_are_an_error_of_one_sentence(name):
    for part, value in (("rounding", "to_odd"), ("overflow", "ieee"), ("random_bits", 32)):
        with pytest.raises(
            ValueError,
            match=f"^projection and {part} are both given, but one "
            "is a part of the other; omit one$",
        ):
            CALLS[name](projection=ODD, **{part: value})
    with pytest.raises(TypeError, match="^projection is of type str; give a Projection, such as"):
        CALLS[name](projection="to_odd")
    with pytest.raises(
        TypeError, match="^unexpected keyword argument 'ruonding'; did you mean rounding\\?$"
    ):
        CALLS[name](ruonding="to_odd")


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_keyword_is_answered_with_all_that_there_are(name):
    """Its own keywords too, whichever functions share its options."""
    with pytest.raises(TypeError, match="^unexpected keyword argument 'zzz'; there are ") as error:
        CALLS[name](zzz="ring")
    listed = str(error.value).partition("there are ")[2].split(", ")
    signature = inspect.signature(getattr(apscope, name)).parameters.values()
    assert listed == [p.name for p in signature if p.kind is p.KEYWORD_ONLY]


@pytest.mark.parametrize(
    "name", ["allreduce", "cast_statistics", "quantize_blocks", "encode_blocks", "add", "sum"]
)
def test_a_part_that_a_function_does_not_know_is_refused(name):
    part, value = ("keep_payload", True) if name in ("add", "sum") else ("underflow", "flush_input")
    with pytest.raises(
        ValueError,
        match=f"^the projection has {part}={value!r}, which this "
        "function does not support; leave it at",
    ):
        CALLS[name](projection=Projection(**{part: value}))
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{part}'"):
        CALLS[name](**{part: value})


def test_signatures_and_docstrings_write_the_options_out():
    shown = inspect.signature(apscope.quantize).parameters
    assert [n for n, p in shown.items() if p.default is not p.empty] == [
        "scale", "random", "out", "projection", "rounding", "overflow", "underflow",
        "keep_payload", "random_bits", "seed", "threads",
    ]  # fmt: skip
    assert inspect.signature(apscope.quantize_blocks).parameters["overflow"].default == "saturate"
    for function in (apscope.quantize, apscope.allreduce, apscope.plan, conformance.check):
        assert "**options" not in function.__doc__ and not any(
            p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()
        )
        for name in inspect.signature(function).parameters:
            assert name in function.__doc__
    assert (
        "floor(eta 2^N)" in apscope.quantize.__doc__
        and "As for `Projection`" in apscope.encode.__doc__
    )


def test_defaults_may_differ_and_options_may_be_missing():
    some = Options(RoundingOptions, without=("seed",), overflow="saturate")
    got = [some.settings(options).projection for options in ({}, {"rounding": "to_odd"})]
    assert [p.overflow for p in got] == ["saturate", "saturate"]
    assert some.settings({"projection": Projection()}).projection.overflow == "ieee"
    with pytest.raises(TypeError, match="'keep_payload'"):
        some.settings({"keep_payload": True})
    s = Options(CastOptions).settings({"keep_payload": True, "threads": 3})
    assert s.threads == 3 and s.projection.keep_payload


def test_what_others_give_and_take(tmp_path):
    found = apscope.fingerprint(lambda x: apscope.quantize(x, "e4m3", projection=ODD))
    assert found.projection == ODD and found.preset == f"e4m3, {ODD}"
    assert apscope.plan("quantize", "e4m3", projection=ODD) == apscope.plan(
        "quantize", "e4m3", rounding="to_odd", overflow="saturate"
    )
    conformance.write(tmp_path / "pack", ["e2m1fn"])
    cast = lambda x: apscope.quantize(x, "e2m1fn", projection=ODD)
    assert (
        conformance.check(tmp_path / "pack", cast, format="e2m1fn", projection=ODD).differing == 0
    )
    (result,) = machine.verify(
        "e2m1fn", projection=Projection("stochastic", random_bits=3), samples=50
    )
    assert result.rounding == "stochastic" and result.mismatches == 0
    with pytest.raises(ValueError, match="projection is given together with rounding"):
        machine.verify("e2m1fn", "to_odd", projection=ODD)
