"""`quickreduce` and `fp8_two_shot`: two phases of their own, against independent references."""

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import bits_of
from tests.python.recorded import record
from tests.reference import fp8_two_shot, quickreduce
from tests.reference.compare import same

WORKERS = (1, 2, 5, 8, 64)
LENGTHS = (0, 1, 65, 500)


def inputs(workers, n, seed=0):
    """Rows of fp32 numbers of several kinds, by name."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((workers, n)).astype(np.float32)
    wide = np.ldexp(normal, rng.integers(-24, 18, (workers, n))).astype(np.float32)
    special = wide.copy()
    where = rng.random((workers, n))
    for k, value in enumerate((np.nan, np.inf, -np.inf, 0.0, -0.0)):
        special[(where > 0.02 * k) & (where <= 0.02 * k + 0.02)] = value
    return {
        "normal": normal,
        "small": normal * np.float32(1e-4),
        "subnormal in fp16": normal * np.float32(2.0**-22),
        "subnormal in fp32": np.ldexp(normal, -140).astype(np.float32),
        "next to fp16's largest": normal * np.float32(3e4),
        "beyond fp16": normal * np.float32(1e6),
        "wide": wide,
        "special": special,
        "NaN": np.full((workers, n), np.nan, np.float32),
        "zeros": np.zeros((workers, n), np.float32),
        "equal sizes": np.copysign(np.float32(0.3), normal),
    }


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "spec, settings",
    [
        ("quickreduce:int8", {}),
        ("quickreduce:int6", {}),
        ("quickreduce:int4", {}),
        ("quickreduce:int8,input=bf16", {"input": "bf16"}),
        ("quickreduce:int4,input=bf16,overflow=ieee", {"input": "bf16", "overflow": "ieee"}),
        ("quickreduce:int8,overflow=ieee", {"overflow": "ieee"}),
        ("quickreduce:int8,epsilon=1.5378e-5", {"epsilon": 1.5378e-5}),
        ("quickreduce:int6,epsilon=0", {"epsilon": 0.0}),
        (
            "quickreduce:int8,epsilon=1.5378e-5,epsilon_as=bound",
            {"epsilon": 1.5378e-5, "use": "bound"},
        ),
    ],
)
def test_quickreduce_has_the_references_bits(spec, settings, workers):
    codec = spec[12:16]
    for n in LENGTHS:
        for name, g in inputs(workers, n, seed=n).items():
            sent, reduced = quickreduce.allreduce(g, codec, **settings)
            e = apscope.exchange(spec, g)
            assert e.reduction == "own:two_phase"
            assert same(e.sent, sent), (name, n)
            assert same(e.reduced, reduced), (name, n)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("overflow", ["pytorch", "ieee", "saturate"])
@pytest.mark.parametrize("group", [0, 7, 100])
@pytest.mark.parametrize("format", ["e4m3fn", "e5m2"])
def test_fp8_two_shot_has_the_references_bits(format, group, overflow, workers):
    spec = f"fp8_two_shot:{format},group={group},overflow={overflow}"
    for n in LENGTHS:
        for name, g in inputs(workers, n, seed=n).items():
            sent, reduced = fp8_two_shot.allreduce(g, format, group, overflow)
            e = apscope.exchange(spec, g)
            assert e.reduction == "own:two_phase"
            assert same(e.sent, sent), (name, n)
            assert same(e.reduced, reduced), (name, n)


def test_rows_are_groups_as_long_as_a_row():
    g = inputs(4, 30 * 50)["wide"]
    rows = apscope.exchange("fp8_two_shot:e4m3fn,group=row", g.reshape(4, 30, 50))
    assert same(rows.reduced.ravel(), apscope.exchange("fp8_two_shot:e4m3fn,group=50", g).reduced)
    flat = apscope.exchange("fp8_two_shot:e4m3fn,group=row", g)
    assert same(flat.sent, apscope.exchange("fp8_two_shot:e4m3fn", g).sent)


@pytest.mark.parametrize("format", ["e4m3fn", "e5m2"])
@pytest.mark.parametrize("workers, n", [(1, 40), (2, 1000), (4, 1001), (8, 7)])
def test_fp8_two_shot_is_pytorchs_own_arithmetic(format, workers, n):
    """Python's 448 / tensor is a reciprocal and a product in PyTorch, two roundings."""
    torch = pytest.importorskip("torch")
    dtype = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[format]

    # Versions whose cast to e4m3fn does not saturate give NaN beyond 448.
    saturates = not torch.tensor(float("inf")).to(torch.float8_e4m3fn).float().isnan()
    keys = "" if saturates else ",overflow=ieee"

    def coded(x):
        amax = x.abs().max()
        scale = torch.finfo(dtype).max / torch.where(amax > 0, amax, 1.0)
        return (scale * x).to(dtype), 1.0 / scale

    for name, g in inputs(workers, n).items():
        x = torch.nn.functional.pad(torch.from_numpy(g), (0, -n % workers))
        total = torch.zeros(x.shape[1])
        for row in x:
            code, back = coded(row)
            total += back * code.float()
        result = torch.cat([code.float() * back for code, back in map(coded, total.chunk(workers))])
        reduced = apscope.exchange(f"fp8_two_shot:{format}{keys}", g).reduced
        assert same(reduced, result[:n].double().numpy()), name


@pytest.mark.parametrize("codec, width", [("int8", 8), ("int6", 6), ("int4", 4)])
@pytest.mark.parametrize("workers, n", [(2, 128), (4, 1000), (3, 5)])
def test_quickreduces_payload_is_its_codes_and_zeros_behind(codec, width, workers, n):
    g = inputs(workers, n)["normal"]
    e = apscope.exchange(f"quickreduce:{codec}", g)
    padded = -(-n // (64 * workers)) * 64 * workers
    assert e.payload_bits == [width * padded] * workers
    assert e.side_bits == [16 * padded // 32] * workers
    for row, payload in zip(g, e.payload, strict=True):
        x = np.zeros(padded, np.float16)
        x[:n] = row
        q = quickreduce.code(x, codec, 2.0**-24, "add", "saturate")[0]
        codes = bits_of(payload, width * padded).reshape(padded, width) @ (1 << np.arange(width))
        assert np.array_equal(codes, q + quickreduce.LIMITS[codec])


@pytest.mark.parametrize("workers, n, group", [(4, 1001, 0), (2, 1000, 256), (3, 5, 2)])
def test_fp8_two_shots_payload_is_its_codes(workers, n, group):
    g = inputs(workers, n)["normal"]
    e = apscope.exchange(f"fp8_two_shot:e4m3fn,group={group}", g)
    padded = -(-n // workers) * workers if group == 0 else n
    assert e.payload_bits == [8 * padded] * workers
    assert e.side_bits == [64 if group == 0 else 32 * -(-n // group)] * workers
    for row, payload in zip(e.sent, e.payload, strict=True):
        read = np.frombuffer(payload, fp8_two_shot.DTYPES["e4m3fn"]).astype(np.float64)
        assert not read[n:].any()
        for part, codes in zip(
            np.split(row, range(group or n, n, group or n)),
            np.split(read[:n], range(group or n, n, group or n)),
            strict=True,
        ):
            assert np.ptp(part[codes != 0] / codes[codes != 0]) <= 1e-6 * np.abs(part).max()


SPECS = [
    "quickreduce:int8",
    "quickreduce:int4,input=bf16",
    "fp8_two_shot:e4m3fn",
    "fp8_two_shot:e5m2,group=100",
    "fp8_two_shot:e4m3fn,group=row",
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_replay_in_pieces_has_the_exchanges_values(tmp_path, spec):
    """More elements than a piece has, and no multiple of a group."""
    shape = (3, 4500)
    g = [inputs(3, 13500, seed)["normal"].reshape(3, *shape) for seed in range(2)]
    trace = record(tmp_path / "t", [{"w": rows} for rows in g], "sum")
    frame = apscope.replay(trace, spec, topology="ring").frame
    frame = frame[(frame.stage == "reduced") & (frame.topology == "own:two_phase")]
    assert len(frame) == 2
    for (_, row), rows in zip(frame.iterrows(), g, strict=True):
        truth = rows.astype(np.float64).sum(axis=0)
        error = apscope.exchange(spec, rows).reduced - truth
        assert row.nmse == pytest.approx((error**2).sum() / (truth**2).sum(), rel=1e-12)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ("quickreduce:int5", "codec=int5 is not one of int8, int6, int4"),
        ("quickreduce:int8,codec=int4", "has the key 'codec' twice"),
        ("quickreduce:epsilon=2", "epsilon"),
        ("quickreduce:int8,input=fp32", "input=fp32 is not one of fp16, bf16"),
        ("fp8_two_shot", "needs a format"),
        ("fp8_two_shot:e4m3fn,group=-1", "group"),
        ("fp8_two_shot:e4m3fn,group=column", "row or "),
    ],
)
def test_what_is_wrong_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        apscope.schemes.Scheme(wrong)


def test_the_codec_is_the_spec():
    of = lambda spec: apscope.schemes.Scheme(spec).spec
    assert of("quickreduce") == of("quickreduce:int8") == of("quickreduce:codec=int8")
    assert of("quickreduce") == "quickreduce:int8"
    assert of("quickreduce:input=bf16,codec=int4") == "quickreduce:int4,input=bf16"
    assert apscope.schemes.QuickReduce(codec="int6").spec == "quickreduce:int6"
