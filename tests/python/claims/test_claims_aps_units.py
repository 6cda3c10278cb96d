"""Elements that share a shift of `aps`: all tensors of a step, a bucket of DDP, a tensor, a row, a
run of elements."""

import math

import numpy as np
import pytest

import apscope
from tests.python import recorded
from tests.python.one_bit_claims import DATA
from tests.reference.schemes import Scheme, amax, shift, units

DIGITS = DATA / "digits"
TOPOLOGIES = ["ring", "tree"]
PAID = ["scheme", "side_bits", "volume", "intra_volume"]  #: columns that know more than the scale


def read(trace, step):
    return {
        name: np.stack([trace.read(step, name, w).ravel() for w in range(trace.workers)])
        for name in trace.tensors
    }


def record(folder, shapes, steps=1, workers=2, seed=0):
    """Tensors of very different magnitudes, which change at every step."""
    rng = np.random.default_rng(seed)
    made = [
        {
            name: 2.0 ** rng.integers(-20, 0) * rng.standard_normal((workers, *shape))
            for name, shape in shapes.items()
        }
        for _ in range(steps)
    ]
    return recorded.record(folder, made)


def rows(trace, spec, **options):
    return apscope.replay(trace, spec, topology=TOPOLOGIES, **options).frame


def without_price(frame):
    return frame.drop(columns=PAID).reset_index(drop=True)


def only(names):
    return f"^({'|'.join(name.replace('.', '[.]') for name in names)})$"


@pytest.mark.parametrize("unit", ["model", "bucket:5KB", "bucket:1KB", "bucket:100"])
@pytest.mark.parametrize("keys", ["", ",rule=tight", ",headroom=one,rounding=stochastic"])
def test_a_unit_of_tensors_has_the_loss_scale_of_its_largest_value(unit, keys):
    """Each unit of each step replayed alone, under the constant scale that NumPy finds for it."""
    trace, spec = apscope.open_trace(DIGITS), f"aps:e4m3{keys.split(',rounding')[0]},unit={unit}"
    rule = Scheme.parse(spec)
    rounding = ",rounding=stochastic" if "stochastic" in keys else ""
    for step in trace.steps[:2]:
        whole = rows(trace, spec + rounding, steps=[step])
        gradients = read(trace, step)
        shared = units(rule, gradients)
        assert len(shared) == {"model": 1}.get(unit, len(shared)) and sum(map(len, shared)) == len(
            gradients
        )
        for names in shared:
            largest = max(amax(gradients[name]) for name in names)
            s = shift(largest, rule.f, rule.keys["headroom"], trace.workers, rule.keys["rule"])
            alone = rows(
                trace,
                f"loss_scaling:e4m3,scale={2.0**s!r}{rounding}",
                steps=[step],
                tensors=only(names),
            )
            # Only the note of weight gradients under a loss scale is another.
            part = whole[whole.tensor.isin(names)]
            assert (
                without_price(part)
                .drop(columns="note")
                .equals(without_price(alone).drop(columns="note"))
            )
            assert set(part.scale_exponent) == {s}


@pytest.mark.parametrize("size", ["1KB", "64KB", "1048576", "1500000", "2MB", "3MB", "25MB"])
def test_buckets_are_those_of_ddp(tmp_path, size):
    torch = pytest.importorskip("torch")
    dist = pytest.importorskip("torch.distributed")
    limit = int(size[:-2]) * {"K": 2**10, "M": 2**20}[size[-2]] if size[-1] == "B" else int(size)
    # A tensor beyond the first bucket's limit, some that end exactly at a limit, one without
    # elements.
    sizes = [300, 262144, 1, 131072, 131072, 262145, 7, 5000, 0, 200000, 400000, 262144, 10]
    trace = record(tmp_path / "t", {f"t{i}": (n,) for i, n in enumerate(sizes)}, workers=1)
    frame = rows(trace, f"aps:e4m3,unit=bucket:{size}").query("stage == 'wire'").set_index("tensor")
    wanted, _ = dist._compute_bucket_assignment_by_size(
        [torch.empty(n) for n in reversed(sizes)],
        [min(dist._DEFAULT_FIRST_BUCKET_BYTES, limit), limit],
        [False] * len(sizes),
        list(range(len(sizes))),
    )
    wanted = [[f"t{len(sizes) - 1 - i}" for i in bucket] for bucket in wanted]
    found = []
    for name in reversed(trace.tensors):
        if frame.side_bits[name]:
            found.append([])
        found[-1].append(name)
    assert found == wanted
    gradients = read(trace, 0)
    for bucket in wanted:
        s = shift(
            max(amax(gradients[name]) for name in bucket), Scheme.parse("aps:e4m3").f, "workers", 1
        )
        assert set(frame.scale_exponent[bucket]) == {s} and frame.side_bits[bucket].tolist() == [
            8
        ] + [0] * (len(bucket) - 1)


@pytest.mark.parametrize(
    "keys", ["", ",rule=tight,rounding=stochastic", ",accumulate=fp32", ",delay=1"]
)
@pytest.mark.parametrize("shape", [(6, 40), (5, 3, 7), (40, 1), (1, 50), (30,), (3, 0), (0, 4)])
def test_a_row_is_a_slice_along_the_first_axis(shape, keys):
    rng = np.random.default_rng(1)
    g = (
        rng.standard_normal((4, *shape))
        * 2.0 ** rng.integers(-30, 0, (shape[0] if len(shape) > 1 else 1, *[1] * (len(shape) - 1)))
    ).astype(np.float32)
    n = math.prod(shape)
    length = n // shape[0] if len(shape) > 1 and n else n
    state = {}, {}
    for step in range(2):
        one, two = (
            apscope.exchange(
                f"aps:e4m3{keys},unit={unit}", g, topology="tree", seed=4, state=s, step=step
            )
            for unit, s in zip(("row", max(length, 1)), state)
        )
        assert (
            np.array_equal(one.sent, two.sent)
            and np.array_equal(one.reduced, two.reduced)
            and one.payload == two.payload
        )
        state = one.state, two.state
        count = shape[0] if len(shape) > 1 and n else min(n, 1)
        assert one.side_bits == two.side_bits == [8 * count] * 4
        if count > 1 and not keys:
            each = [apscope.exchange("aps:e4m3", g[:, i], topology="tree") for i in range(count)]
            assert np.array_equal(one.sent, np.stack([e.sent for e in each], axis=1))


def test_rows_of_a_replay_are_those_of_their_tensors(tmp_path):
    """The counts of a matrix in rows add up from tensors that are its rows; NumPy finds the
    scales."""
    rng = np.random.default_rng(3)
    g = rng.standard_normal((3, 5, 64)) * 2.0 ** rng.integers(-25, 0, (5, 1))
    whole = recorded.record(tmp_path / "whole", [{"m": g}])
    parts = recorded.record(tmp_path / "rows", [{f"m{i}": g[:, i] for i in range(5)}])
    one, two = rows(whole, "aps:e4m3,unit=row"), rows(parts, "aps:e4m3")
    f = Scheme.parse("aps:e4m3").f
    assert two[two.stage == "wire"].scale_exponent.tolist() == [
        shift(float(abs(np.float32(g[:, i])).max()), f, "workers", 3) for i in range(5)
    ]
    for topology in ("", "exact", "tree"):  # a ring's chunks are those of the matrix
        a, b = one[one.topology == topology].iloc[0], two[two.topology == topology]
        assert a.underflow == b.underflow.sum() and a.side_bits == b.side_bits.sum() == 8 * 5
        assert math.isclose(a.sum_squared_error, b.sum_squared_error.sum(), rel_tol=1e-12)


@pytest.mark.parametrize("unit", ["model", "bucket:1KB", "bucket:600", "tensor", "row", "16"])
def test_side_information_is_8_bits_a_unit(unit):
    trace = apscope.open_trace(DIGITS)
    step = trace.steps[0]
    frame = rows(trace, f"aps:e4m3,unit={unit}", steps=[step])
    gradients, shapes = (
        read(trace, step),
        {name: trace.read(step, name, 0).shape for name in trace.tensors},
    )
    count = {
        "row": sum(shape[0] if len(shape) > 1 else 1 for shape in shapes.values()),
        "16": sum(-(-g.shape[1] // 16) for g in gradients.values()),
    }.get(unit) or len(units(Scheme.parse(f"aps:e4m3,unit={unit}"), gradients))
    for topology in ("", "ring"):
        assert frame[frame.topology == topology].side_bits.sum() == 8 * count
    # Weighed by the elements, the volumes of a step add up to the step's: a quarter, and the side
    # information over 4n bytes.
    ring = frame[frame.topology == "ring"]
    assert math.isclose(
        np.average(ring.volume, weights=ring["count"]),
        1 / 4 + count / 4 / ring["count"].sum(),
        rel_tol=1e-12,
    )


def test_the_cost_of_a_shift_for_the_model_does_not_grow_with_it():
    """8 bits once, in one message: whatever the model's size. One a tensor: as many as there are
    tensors."""
    trace = apscope.open_trace(DIGITS)
    bytes_of = {}
    for unit in ("model", "tensor"):
        times = [
            apscope.cost.step_time(
                apscope.replay(trace, f"aps:e4m3,unit={unit}", topology="ring"), elements=n
            )
            for n in (None, 25.6e6)
        ]
        recorded, larger = (t[t.topology == "ring"].side_bytes.item() for t in times)
        assert recorded == larger
        bytes_of[unit] = recorded
    ring = 2 * (trace.workers - 1) / trace.workers
    assert bytes_of == pytest.approx({"model": ring, "tensor": ring * len(trace.tensors)})


@pytest.mark.parametrize("unit", ["model", "bucket:1KB"])
@pytest.mark.parametrize("keys", ["", ",delay=1", ",frozen=2"])
def test_a_branch_shares_a_shift_among_the_tensors_that_it_serves(unit, keys):
    trace, spec = apscope.open_trace(DIGITS), f"aps:e4m3,unit={unit}{keys}"
    policy = f"hybrid(name:weight=none:fp16;else={spec})"
    assert apscope.schemes.Scheme(policy).spec.count(unit) == 1
    mixed, alone = rows(trace, policy), rows(trace, spec, tensors="bias")
    rest = mixed[~mixed.tensor.str.contains("weight")]
    assert 0 < len(rest) == len(alone)
    assert (
        rest.drop(columns="scheme")
        .reset_index(drop=True)
        .equals(alone.drop(columns="scheme").reset_index(drop=True))
    )


def test_a_branch_of_some_steps_remembers_those(tmp_path):
    trace = record(tmp_path / "t", {"a": (30,), "b": (40,)}, steps=6)
    spec = "aps:e4m3,unit=model,delay=1"
    mixed, alone = (
        rows(trace, f"hybrid(steps:0:2=none:fp16;else={spec})"),
        rows(trace, spec, steps="2:6"),
    )
    assert mixed[mixed.step >= 2].scale_exponent.tolist() == alone.scale_exponent.tolist()


def test_one_tensor_by_itself_is_its_own_model_and_bucket():
    g = np.random.default_rng(2).standard_normal((3, 50)).astype(np.float32)
    states = [{}] * 3
    for step in range(3):
        made = [
            apscope.exchange(
                f"aps:e4m3{unit},delay=1", g * np.float32(4.0**step), state=state, step=step
            )
            for unit, state in zip(("", ",unit=model", ",unit=bucket:25MB"), states)
        ]
        states = [e.state for e in made]
        for e in made[1:]:
            assert (
                np.array_equal(made[0].sent, e.sent)
                and np.array_equal(made[0].reduced, e.reduced)
                and made[0].side_bits == e.side_bits
            )


@pytest.mark.parametrize("unit", ["model", "bucket:25MB"])
def test_what_sees_one_tensor_at_a_time_refuses_a_unit_of_several(unit):
    spec = f"aps:e4m3,unit={unit}"
    for around in (f"error_feedback({spec})", f"residual({spec})"):
        with pytest.raises(ValueError, match="scales each tensor separately"):
            apscope.schemes.Scheme(around)
    with pytest.raises(ValueError, match="scales each tensor separately"):
        apscope.schemes.define(
            "made_of_a_model", spec, select=lambda step, state, x: {"scale": [1.0]}
        )


@pytest.mark.parametrize("size", ["", "25", "25MB", "512KB", "1024GB"])
def test_sizes_of_buckets(size):
    spec = f"aps:e4m3,unit=bucket:{size}"
    if size:
        assert apscope.schemes.Scheme(spec).spec == spec
        assert apscope.schemes.APS("e4m3", unit=f"bucket:{size}").spec == spec
        return
    with pytest.raises(ValueError, match="as in unit=bucket:25MB"):
        apscope.schemes.Scheme(spec)


@pytest.mark.parametrize(
    "size",
    [
        "0",
        "-1MB",
        "1.5MB",
        "25 MB",
        "25mb",
        "MB",
        "25MiB",
        "1025GB",
        "99999999999999999999",
        "25MB:1",
    ],
)
def test_what_is_no_size_is_named(size):
    with pytest.raises(ValueError, match=f"unit=bucket:{size} has no bucket size"):
        apscope.schemes.Scheme(f"aps:e4m3,unit=bucket:{size}")
