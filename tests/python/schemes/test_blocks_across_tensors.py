"""bucket=SIZE: blocks counted through the tensors of a bucket. The reference: the exchange of the
bucket as one array (NumPy), and its parts."""

import math

import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.reference.schemes import Scheme, units

#: Elements of the tensors: smaller than a block, none, a block's, larger than a bucket.
SIZES = [5, 0, 300, 1, 1, 32, 7, 90, 2, 0, 31, 200, 3, 0]
LIMITS = ["100", "400", "1KB", "25MB"]
#: Schemes that draw nothing, whose sums do not depend on an element's place.
EXACT = [
    "mx",
    "mx:block_format=mxfp4,rule=rceil",
    "mx:block_format=mxint8",
    "mx:block_format=bfp:8:16",
    "mx:block_format=mxfp6_e2m3,block=256",
    "mx:nonfinite=torchao",
    "nvfp4:rounding=ties_to_even",
    "nvfp4:rounding=ties_to_even,agree=local,rht=false",
    "nvfp4:rounding=ties_to_even,rht=false,nonfinite=transformer_engine",
    "nvfp4:rounding=ties_to_even,scale=e5m3fnu,tensor_scale=false",
    "nvfp4:rounding=ties_to_even,four_over_six=mse",
    "aps:e4m3,unit=16",
    "aps:e2m1fn,unit=7,rule=tight,overflow=saturate",
    "current_scaling:e4m3fn,block=256",
    "current_scaling:e4m3fn,block=16,nonfinite=one,pow2=true",
    "fp8_two_shot:e4m3fn,group=32",
    "fp8_two_shot:e5m2,group=256,overflow=saturate",
    "quickreduce",
    "quickreduce:int4,input=bf16,overflow=ieee",
]
COUNTS = [1, 2, 5, 16]


def with_bucket(spec, size):
    return f"{spec}{',' if ':' in spec else ':'}bucket={size}"


def gradients(workers, seed=0, sizes=SIZES, special=False):
    """Tensors of very different magnitudes; on request with infinities and NaNs at their ends."""
    rng = np.random.default_rng(seed)
    made = {}
    for i, n in enumerate(sizes):
        x = rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-12, 12)
        made[f"t{i}"] = x.astype(np.float32)
    if special:
        made["t3"][0, 0], made["t7"][-1, 89] = math.nan, math.inf
        made["t6"][0, 3], made["t11"][0, 0] = -math.inf, math.nan
    return made


def buckets(tensors, size):
    return units(Scheme.parse(f"aps:e4m3,unit=bucket:{size}"), tensors)


def joined(tensors, names):
    return np.concatenate([tensors[name] for name in names], axis=1)


def parts(tensors, names, array):
    """{name: its part of the array (..., elements of the bucket)}"""
    ends = np.cumsum([tensors[name].shape[1] for name in names])
    return dict(zip(names, np.split(array, ends[:-1], axis=-1), strict=True))


def exchanged(spec, tensors, *, workers, topology="sequential"):
    """The sums of a training loop's exchange."""
    torch = pytest.importorskip("torch")
    from apscope.train._exchanger import Exchanger

    shapes = {name: x.shape[1:] for name, x in tensors.items()}
    exchanger = Exchanger(spec, shapes, workers=workers, topology=topology, divide=False, threads=2)
    out = [torch.empty(tensors[name].shape[1]) for name in exchanger.names]
    exchanger.run([torch.from_numpy(tensors[name]) for name in exchanger.names], out)
    return {name: o.numpy() for name, o in zip(exchanger.names, out, strict=True)}


def bits(x):
    """Of fp32 numbers; all NaNs are one."""
    x = np.asarray(x, np.float32)
    return np.where(np.isnan(x), np.float32(math.nan), x).view(np.uint32)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("spec", EXACT)
def test_a_bucket_is_one_array(spec, workers, limit, special):
    x = gradients(workers, seed=workers, special=special)
    found = exchanged(with_bucket(spec, limit), x, workers=workers)
    differs = False
    for names in buckets(x, limit):
        whole = apscope.exchange(spec, joined(x, names), topology="sequential").reduced
        for name, wanted in parts(x, names, whole).items():
            assert np.array_equal(bits(found[name]), bits(wanted)), (names, name)
            alone = apscope.exchange(spec, x[name], topology="sequential").reduced
            differs = differs or not np.array_equal(bits(alone), bits(wanted))
    assert differs  # else the test would say nothing


@pytest.mark.parametrize(
    "spec, scale_bits, block, once",
    [
        ("mx", 8, 32, 0),
        ("mx:block_format=mxfp4,block=64", 8, 64, 0),
        ("nvfp4:rounding=ties_to_even,agree=local", 8, 16, 32),
        ("nvfp4:rounding=ties_to_even,rht=false", 8, 16, 32),
        ("aps:e4m3,unit=7", 8, 7, 0),
        ("current_scaling:e4m3fn,block=256", 32, 256, 0),
        ("fp8_two_shot:e4m3fn,group=256", 32, 256, 0),
    ],
)
@pytest.mark.parametrize("limit", LIMITS)
def test_rows_of_a_replay(tmp_path, spec, scale_bits, block, once, limit):
    """Errors of the parts; a block is paid for by the tensor in which it begins."""
    x = gradients(3, seed=2)
    trace = record(tmp_path / "t", [x], reduction="sum")
    frame = apscope.replay(trace, with_bucket(spec, limit), topology="sequential").frame
    wire = frame[(frame.stage == "wire") & (frame.topology == "")].set_index("tensor")
    paid = 0
    for names in buckets(x, limit):
        array = joined(x, names)
        whole = apscope.exchange(spec, array, topology="sequential")
        sums = parts(x, names, whole.reduced)
        first = 0
        for name, sent in parts(x, names, whole.sent).items():
            n = x[name].shape[1]
            begun = sum(first <= b < first + n for b in range(0, array.shape[1], block))
            assert wire.side_bits[name] == scale_bits * begun + once * (first == 0 and n > 0)
            error = ((sent - x[name].astype(np.float64)) ** 2).sum()
            assert math.isclose(wire.sum_squared_error[name], error, rel_tol=1e-12), name
            rows = frame[(frame.tensor == name) & (frame.stage == "reduced")]
            last = rows[rows.topology.isin(["gather", "sequential", "own:two_phase"])].iloc[0]
            error = ((sums[name] - x[name].astype(np.float64).sum(axis=0)) ** 2).sum()
            assert math.isclose(last.sum_squared_error, error, rel_tol=1e-12), name
            first += n
        assert wire.side_bits[names].sum() == whole.side_bits[0]
        assert wire.wire_bits[names].sum() == whole.payload_bits[0]
        paid += whole.side_bits[0]
    assert paid and frame[frame["count"] == 0].sum_squared_error.eq(0).all()


@pytest.mark.parametrize("limit", LIMITS)
def test_the_padding_of_quickreduce_is_that_of_the_bucket(tmp_path, limit):
    """Its last tensor that has elements sends the zeros up to a multiple of 64 W."""
    x = gradients(3, seed=2)
    trace = record(tmp_path / "t", [x], reduction="sum")
    frame = apscope.replay(trace, with_bucket("quickreduce:int6", limit), topology="ring").frame
    wire = frame[(frame.stage == "wire") & (frame.topology == "")].set_index("tensor")
    for names in buckets(x, limit):
        array = joined(x, names)
        whole = apscope.exchange("quickreduce:int6", array)
        first, size, padded = 0, array.shape[1], -(-array.shape[1] // 192) * 192
        for name, sent in parts(x, names, whole.sent).items():
            end = first + x[name].shape[1]
            begun, last = len(range(-(-first // 64) * 64, end, 64)), first < end == size
            beyond = padded // 64 - -(-size // 64) if last else 0
            assert wire.side_bits[name] == 2 * 16 * (begun + beyond)
            assert wire.wire_bits[name] == 6 * (end - first + (padded - size if last else 0))
            error = ((sent - x[name].astype(np.float64)) ** 2).sum()
            assert math.isclose(wire.sum_squared_error[name], error, rel_tol=1e-12), name
            first = end
        assert wire.side_bits[names].sum() == whole.side_bits[0]
        assert wire.wire_bits[names].sum() == whole.payload_bits[0]


@pytest.mark.parametrize("spec, block", [("mx", 32), ("aps:e4m3,unit=16", 16)])
def test_columns_about_blocks_are_of_the_parts_in_the_tensor(tmp_path, spec, block):
    x = gradients(2, seed=11)
    trace = record(tmp_path / "t", [x], reduction="sum")
    frame = apscope.replay(trace, with_bucket(spec, "25MB"), topology="ring").frame
    wire = frame[(frame.stage == "wire") & (frame.topology == "")].set_index("tensor")
    for names in buckets(x, "25MB"):
        first = 0
        for name in names:
            end, ranges = first + x[name].shape[1], []
            edges = sorted({first, end, *range(-(-first // block) * block, end, block)})
            for begin, stop in zip(edges, edges[1:], strict=False):
                exponents = np.frexp(x[name][:, begin - first : stop - first])[1]
                ranges += list(exponents.max(axis=1) - exponents.min(axis=1))
            if ranges:
                assert wire.block_range[name] == pytest.approx(np.mean(ranges), rel=1e-12), name
            first = end


STOCHASTIC = [
    "mx:block_format=mxfp4,rounding=stochastic",
    "mx:block_format=mxfp8_e5m2,rounding=stochastic,random_bits=16",
    "nvfp4:rht=false",
    "nvfp4:rht=false,random_bits=40,agree=local",
    "aps:e3m2,unit=16,rounding=stochastic",
    "current_scaling:e4m3fn,block=16,rounding=stochastic",
]


@pytest.mark.parametrize("spec", STOCHASTIC)
def test_the_words_are_those_of_the_tensor(spec):
    """Where every block has the same scale, wherever it begins, the key changes no bit."""
    rng = np.random.default_rng(3)
    x = {
        f"t{i}": np.where(rng.random((4, n)) < 0.5, -1.0, 1.0).astype(np.float32) * np.float32(1.75)
        for i, n in enumerate([1000, 5, 0, 77, 600, 1])
    }
    for one in x.values():  # most between two codes, in every block a value that is the largest
        one[:, 1:] = np.where(
            np.arange(1, one.shape[1]) % 2, one[:, 1:], one[:, 1:] * np.float32(0.3)
        )
    found, alone = (exchanged(one, x, workers=4) for one in (with_bucket(spec, "25MB"), spec))
    for name in x:
        if x[name].shape[1] != 1:
            assert np.array_equal(bits(found[name]), bits(alone[name])), name


@pytest.mark.parametrize("spec", ["nvfp4", *STOCHASTIC])
def test_draws_have_the_stated_moments(tmp_path, spec):
    """Where the moments have a closed form, the mean over many draws has it, in a shared block."""
    x = gradients(2, seed=4, sizes=[20, 9, 40])
    trace = record(tmp_path / "t", [x], reduction="sum")
    spec = with_bucket(spec, "25MB")
    one = apscope.replay(trace, spec, topology="sequential").frame
    seeds = [
        apscope.replay(trace, spec, topology="sequential", seed=seed).frame for seed in range(300)
    ]
    for i in one.index[one.stage == "wire"]:
        if math.isnan(one.expected_bias[i]):
            continue
        bias = np.array([frame.bias[i] for frame in seeds])
        spread = bias.std(ddof=1) / math.sqrt(len(bias))
        assert abs(bias.mean() - one.expected_bias[i]) <= 5 * spread + 1e-15, one.tensor[i]


def test_neighbours_are_those_of_the_selection_and_of_the_branch(tmp_path):
    x = gradients(2, seed=5)
    trace = record(tmp_path / "t", [x], reduction="sum")
    kept = {name: x[name] for name in ("t2", "t4", "t11")}
    selected = apscope.replay(
        trace, "mx:bucket=25MB", topology="ring", tensors="^(t2|t4|t11)$"
    ).frame
    branch = apscope.replay(
        trace, "hybrid(name:^(t2|t4|t11)$=mx:bucket=25MB;else=none:fp32)", topology="ring"
    ).frame
    branch = branch[branch.tensor.isin(kept) & branch.topology.isin(["", "exact", "gather"])]
    errors = ["sum_squared_error", "side_bits", "wire_bits"]
    assert selected[errors].reset_index(drop=True).equals(branch[errors].reset_index(drop=True))
    order = list(kept)[::-1]
    whole = apscope.exchange("mx", joined(kept, order))
    for name, sent in parts(kept, order, whole.sent).items():
        error = ((sent - kept[name].astype(np.float64)) ** 2).sum()
        found = selected[(selected.tensor == name) & (selected.stage == "wire")]
        assert math.isclose(found.sum_squared_error.iloc[0], error, rel_tol=1e-12)


def test_a_branch_of_some_steps_has_the_neighbours_of_its_step(tmp_path):
    """t1 lies between t0 and t2 at step 0 alone."""
    steps = [gradients(2, seed=s, sizes=[20, 9, 50]) for s in (9, 10)]
    trace = record(tmp_path / "t", steps, reduction="sum")
    spec = "hybrid(name:t1&steps:1:=none:fp32;else=mx:bucket=25MB)"
    frame = apscope.replay(trace, spec, topology="ring").frame
    for step, names in enumerate((["t2", "t1", "t0"], ["t2", "t0"])):
        x = steps[step]
        sent = parts(x, names, apscope.exchange("mx", joined(x, names)).sent)
        for name in names:
            error = ((sent[name] - x[name].astype(np.float64)) ** 2).sum()
            row = frame[(frame.step == step) & (frame.tensor == name) & (frame.stage == "wire")]
            assert math.isclose(row.sum_squared_error.iloc[0], error, rel_tol=1e-12), (step, name)


@pytest.mark.parametrize(
    "spec", ["mx", "nvfp4", "aps:e4m3,unit=16", "current_scaling:e4m3,block=8", "quickreduce:int4"]
)
def test_a_tensor_by_itself_is_its_own_bucket(spec):
    x = gradients(3, seed=6, sizes=[77])["t0"]
    found, alone = (apscope.exchange(one, x) for one in (with_bucket(spec, "25MB"), spec))
    assert np.array_equal(found.sent, alone.sent)
    assert np.array_equal(found.reduced, alone.reduced)
    assert found.side_bits == alone.side_bits and found.payload_bits == alone.payload_bits


@pytest.mark.parametrize(
    "topology",
    [
        "two_phase",
        "two_phase,own=exact",
        "two_phase,sum=exact,phase2=(mx:block_format=mxfp8_e5m2)",
        "two_phase,sum=bf16,phase2=(aps:e5m2)",
        "reduce_scatter",
    ],
)
@pytest.mark.parametrize("workers", [1, 4, 7])
@pytest.mark.parametrize("spec", EXACT)
def test_the_shards_of_two_phases_are_those_of_the_bucket(spec, workers, topology):
    x = gradients(workers, seed=8, special=workers == 7)
    found = exchanged(with_bucket(spec, "400"), x, workers=workers, topology=topology)
    for names in buckets(x, "400"):
        whole = apscope.exchange(spec, joined(x, names), topology=topology).reduced
        for name, wanted in parts(x, names, whole).items():
            assert np.array_equal(bits(found[name]), bits(wanted)), (names, name)


@pytest.mark.parametrize(
    "spec, words",
    [
        ("mx:bucket=25XB", "bucket=25XB has no bucket size"),
        ("mx:bucket=0", "as in bucket=25MB"),
        ("mx:along=row,bucket=25MB", "use along=tensor"),
        ("aps:e4m3,bucket=25MB", "unit=tensor is not a number of elements; give unit=N"),
        ("aps:e4m3,unit=row,bucket=25MB", "unit=row is not a number"),
        ("aps:e4m3,unit=16,delay=1,bucket=25MB", "leave them out"),
        ("aps:e4m3,unit=16,frozen=3,bucket=25MB", "leave them out"),
        ("current_scaling:e4m3fn,bucket=25MB", "give block=N"),
        ("fp8_two_shot:e4m3fn,bucket=25MB", "group=0 is not a number of elements; give group=N"),
        ("error_feedback(mx:bucket=25MB)", "blocks that cross tensors"),
        ("residual(aps:e4m3,unit=16,bucket=25MB)", "blocks that cross tensors"),
    ],
)
def test_what_is_refused(spec, words):
    with pytest.raises(ValueError, match=words):
        apscope.schemes.Scheme(spec)


def test_other_refusals(tmp_path):
    x = gradients(2, sizes=[40])["t0"]
    with pytest.raises(ValueError, match="leave bucket out"):
        apscope.exchange("mx", x, topology="two_phase,phase2=(mx:bucket=25MB)")
    with pytest.raises(ValueError, match="remembers the steps of a tensor"):
        apscope.exchange("mx:bucket=25MB", x, topology="two_phase,phase2=(aps:e5m2,delay=1)")
    with pytest.raises(ValueError, match="blocks that cross tensors"):
        apscope.schemes.define("made_from_a_bucket", "mx:bucket=25MB", forward=lambda s, t, x: x)
