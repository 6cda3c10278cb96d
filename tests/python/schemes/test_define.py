"""Schemes made of NumPy functions, and `apscope.exchange`: errors, and unchanged arrays of the
caller."""

import numpy as np
import pytest

import apscope
from apscope import schemes
from tests.python.recorded import record

G = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "base", "parts", "error", "words"),
    [
        ("aps", "none:e4m3", {}, ValueError, "'aps' cannot name a new scheme"),
        ("all", "none:e4m3", {}, ValueError, "'all' cannot name a new scheme"),
        ("main", "none:e4m3", {}, ValueError, "'main' cannot name a new scheme"),
        ("a:b", "none:e4m3", {}, ValueError, "without :,;="),
        ("two words", "none:e4m3", {}, ValueError, "without spaces"),
        ("mine@ring", "none:e4m3", {}, ValueError, "cannot name a new scheme"),
        ("", "none:e4m3", {}, ValueError, "cannot name a new scheme"),
        ("mine", "hybrid(else=none:e4m3)", {}, ValueError, "is a policy"),
        ("mine", "nothing", {}, ValueError, "unknown scheme 'nothing'"),
        ("mine", "none:e4m3", {"encode": 3}, TypeError, "encode=3 must be a function"),
        ("mine", "none:e4m3", {"bits": 65}, ValueError, "bits=65 is not between 0 and 64"),
        ("mine", "none:e4m3", {"side_bits": -1}, ValueError, "side_bits=-1 is not between 0 and"),
        ("mine", "none:e4m3", {"side_bits": 0.5}, TypeError, "side_bits"),
    ],
)
def test_what_cannot_be_defined(name, base, parts, error, words):
    with pytest.raises(error, match=words):
        schemes.define(name, base, **parts)


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("compensate", lambda step, state, x: x[:, :3]),
        ("encode", lambda step, theta, x, worker: x[:-1]),
        ("reduce", lambda step, state, theta, values: values[0, :2]),
        ("inverse", lambda step, state, row: row[:2]),
    ],
)
def test_a_part_of_the_wrong_length_is_named(part, function):
    same = {"forward": lambda step, state, x: x} if part == "inverse" else {}
    mine = schemes.define("short", "aps:e4m3", **same, **{part: function})
    with pytest.raises(
        ValueError, match=rf"scheme 'short': {part} gave \d+ values where 20 belong, of x at step 0"
    ):
        apscope.exchange(mine, G)


@pytest.mark.parametrize("spec", ["plain:bits=3", "plain:e4m3", "plain(aps:e4m3)"])
def test_a_defined_scheme_takes_its_name_alone(spec):
    schemes.define("plain", "aps:e4m3", bits=3)
    with pytest.raises(ValueError, match="'plain' is made of functions and takes no format, keys"):
        apscope.exchange(spec, G)


def test_an_error_of_a_part_is_the_callers(tmp_path):
    def fails(step, theta, x, worker):
        raise ZeroDivisionError("mine")

    mine = schemes.define("failing", "aps:e4m3", encode=fails)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        apscope.exchange(mine, G, tensor="fc.weight", step=7)
    assert caught.value.__notes__ == [
        "in encode of the scheme 'failing', tensor fc.weight at step 7"
    ]


def test_parts_on_a_base_that_turns_rows_in_its_encoding_see_them_before():
    """thc turns one worker's row of 20 to 32 elements at a time, when it encodes it."""
    seen = {}

    def select(step, state, x):
        seen["select"] = x.shape
        return {"scale": [1.0], "zero": [0.0]}

    def forward(step, state, x):
        seen["forward"] = x.shape
        return 2 * x

    apscope.exchange(schemes.define("chosen", "thc", select=select), G)
    both = {"forward": forward, "inverse": lambda step, state, row: row / 2}
    doubled = apscope.exchange(schemes.define("doubled", "thc", **both), G)
    with pytest.raises(ValueError, match="forward is given without inverse, which changes the sum"):
        schemes.define("changed", "thc", forward=forward)
    with pytest.raises(ValueError, match="inverse is given without forward"):
        schemes.define("changed", "aps:e4m3", inverse=lambda step, state, row: row)
    assert seen == {"select": (3, 20), "forward": (3, 20)}
    assert np.array_equal(doubled.sent, apscope.exchange("thc", G).sent)


@pytest.mark.parametrize(("scale", "sentence"), [
    (np.ones(3), "'scale' has 3 numbers; give one, for all elements and workers"),
    (0.0, "select gives the scale 0.0*; it must be a positive finite number"),
    (np.nan, "select gives the scale nan; it must be"),
    (-2.0, "select gives the scale -2.0*; it must be"),
])  # fmt: skip
def test_a_scale_is_one_positive_number(scale, sentence):
    mine = schemes.define("scaled", "aps:e4m3", select=lambda step, state, x: {"scale": scale})
    with pytest.raises(ValueError, match=sentence):
        apscope.exchange(mine, G)


def test_a_scale_that_no_float_format_uses_may_be_0():
    """An encoding of the caller's handles it, and a step that is dropped has none."""
    none = {"scale": 0.0}
    own = schemes.define(
        "own", "none:fp32", select=lambda step, state, x: none,
        encode=lambda step, theta, x, worker: x * float(theta["scale"][0]),
    )  # fmt: skip
    assert not apscope.exchange(own, G).sent.any()
    drops = schemes.define(
        "drops", "aps:e4m3", select=lambda step, state, x: none | {"skipped": 1.0}
    )
    assert apscope.exchange(drops, G).skipped
    for scales in (np.zeros(G[0].size), np.full(G[0].size, np.nan)):
        each = schemes.define(
            "each", "aps:e4m3", select=lambda step, state, x, scales=scales: {"scales": scales}
        )
        with pytest.raises(ValueError, match="select gives the scale .*; it must be a positive"):
            apscope.exchange(each, G)


def test_a_part_sees_the_step():
    seen = []

    def encode(step, theta, x, worker):
        seen.append(
            (
                step.tensor,
                step.role,
                step.shape,
                step.number,
                step.index,
                step.workers,
                step.loss,
                step.learning_rate,
                worker,
            )
        )
        assert (
            np.array_equal(step.random(worker, 5, bits=7), step.random(worker, 5, bits=7))
            and (step.random(worker, 50, bits=7) < 128).all()
        )
        assert not np.array_equal(step.random(0, 50), step.random(1, 50)) and not np.array_equal(
            step.random(0, 50), step.random(0, 50, hop=1)
        )
        return x

    mine = schemes.define("seeing", "aps:e4m3", encode=encode)
    apscope.exchange(
        mine, G, tensor="fc", role="head", step=7, index=2, loss=1.5, learning_rate=0.25
    )
    assert seen == [("fc", "head", [4, 5], 7, 2, 3, 1.5, 0.25, w) for w in range(3)]


def test_every_worker_is_less_than_the_senders():
    seen = []

    def encode(step, theta, x, worker):
        seen.append((step.workers, step.senders, worker))
        return x

    mine = schemes.define("numbered", "none:fp32", encode=encode)
    apscope.exchange(mine, G, topology="two_phase")
    assert seen == [(1, 6, worker) for worker in range(6)]  # three workers, then three owners
    seen.clear()
    apscope.exchange(mine, G)
    assert seen == [(3, 3, worker) for worker in range(3)]


def test_a_draw_of_no_worker_is_refused():
    def encode(step, theta, x, worker):
        return x + step.random(-1, x.size)

    mine = schemes.define("drawing", "none:fp32", encode=encode)
    with pytest.raises(ValueError, match="worker=-1 must be at least 0") as caught:
        apscope.exchange(mine, G)
    assert caught.value.__notes__ == ["in encode of the scheme 'drawing', tensor x at step 0"]


def test_the_state_is_copied_once_for_all_rows_of_inverse():
    """Otherwise a state with a row per worker is copied workers times workers."""
    seen = []

    def inverse(step, state, row):
        seen.append(state)
        return row

    mine = schemes.define("turning", "none:e4m3", forward=lambda step, state, x: x, inverse=inverse)
    apscope.exchange(mine, G)
    assert len(seen) == 4 and all(state is seen[0] for state in seen)  # three messages and a sum


@pytest.mark.parametrize("payload", [None, b"\x01\x02"])
def test_side_bits_are_those_of_every_message(payload):
    def encode(step, theta, row, worker):
        return row if payload is None else (row, payload)

    mine = schemes.define("side", "none:fp32", encode=encode, bits=1, side_bits=33)
    e = apscope.exchange(mine, G)
    assert e.side_bits == [33] * 3
    assert e.payload_bits == [20 if payload is None else 16] * 3
    assert (
        apscope.exchange(schemes.define("side", "none:fp32", encode=encode), G).side_bits == [0] * 3
    )


def test_a_payload_is_kept_as_it_was_given():
    mine = schemes.define(
        "packing",
        "none:e4m3",
        encode=lambda step, theta, x, worker: (np.round(x), bytes([worker] * 3)),
    )
    e = apscope.exchange(mine, G)
    assert (
        e.payload == [b"\0\0\0", b"\1\1\1", b"\2\2\2"]
        and e.payload_bits == [24, 24, 24]
        and np.array_equal(e.sent, np.round(G))
    )


def test_neither_arrays_nor_states_of_the_caller_change():
    g, state = G.copy(), {}
    first = apscope.exchange("error_feedback(sign)", g, state=state)
    kept = {name: row.copy() for name, row in first.state.items()}
    apscope.exchange("error_feedback(sign)", g, state=first.state)
    assert (
        np.array_equal(g, G)
        and state == {}
        and all(np.array_equal(first.state[n], kept[n]) for n in kept)
    )


def test_a_states_number_that_is_no_integer_is_quoted_as_short_as_it_can_be():
    state = {"loss_scale": np.array([128.0, 0.1])}
    with pytest.raises(ValueError, match=r"'loss_scale' has 0\.1, which is not an integer in"):
        apscope.exchange("dynamic_loss_scaling:e4m3", G, state=state)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (
            ("aps:e4m3", G.astype(np.float64)),
            {},
            TypeError,
            "dtype float64; exchange takes float32",
        ),
        (("aps:e4m3", np.float32(1)), {}, ValueError, "first axis must be the workers"),
        (("aps:e4m3", G[:0]), {}, ValueError, "at least one"),
        (
            ("aps:e4m3", G),
            {"topology": "rong"},
            ValueError,
            "unknown topology 'rong'; did you mean ring?",
        ),
        (("hybrid(else=aps:e4m3)", G), {}, ValueError, "is a policy"),
        (("fractrain", G), {}, ValueError, "needs loss; give loss="),
        (
            ("aps:e4m3", G),
            {"weights": np.zeros(3, np.float32)},
            ValueError,
            r"weights has shape \(3,\)",
        ),
        (("aps:e4m3", G), {"step": -1}, ValueError, "step=-1 is not between"),
    ],
)
def test_what_exchange_refuses(arguments, options, error, words):
    with pytest.raises(error, match=words) as caught:
        apscope.exchange(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_a_trace_without_what_a_scheme_needs_gets_rows_that_say_so(tmp_path):
    trace = record(tmp_path / "t", [{"g": G}])  # no loss
    frame = apscope.replay(trace, "fractrain", topology="ring").frame
    assert (
        (frame.note == "not measurable on this trace: needs loss").all()
        and frame.nmse.isna().all()
        and len(frame) == 3
    )
