"""No entry point computes in the caller's float environment: another rounding mode or flushed
subnormals change no byte.

`everything` goes through the public functions; a test sees to it that every function of `_core` is
among what they call.
"""

import ctypes
import ctypes.util
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import _core
from apscope._advice import seconds
from apscope._arrays.float_environment import guarded
from apscope._results import comparison
from apscope._results.pooling import (
    headline_rows,
    headline_topology,
    is_own,
    losses,
    pool,
    step_losses,
)

torch = pytest.importorskip("torch")

DATA = Path(__file__).parents[3] / "notebooks" / "data"
LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
DOWNWARD, UPWARD, TOWARD_ZERO = 0x400, 0x800, 0xC00  # x86-64's, as C's <fenv.h> names them

if sys.platform != "linux" or not torch.set_flush_denormal(False):
    pytest.skip(
        "neither rounding modes nor flushing of an x86-64 Linux thread", allow_module_level=True
    )


@contextmanager
def rounding(mode: int) -> Iterator[None]:
    assert LIBM.fesetround(mode) == 0
    try:
        yield
        assert LIBM.fegetround() == mode, "the caller's mode comes back"
    finally:
        LIBM.fesetround(0)


@contextmanager
def flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
        assert np.float64(5e-324) * np.array([1.0])[0] == 0.0, "the caller's mode comes back"
    finally:
        torch.set_flush_denormal(False)


ENVIRONMENTS: dict[str, Callable[[], Iterator[None]]] = {
    "upward": lambda: rounding(UPWARD),
    "downward": lambda: rounding(DOWNWARD),
    "toward zero": lambda: rounding(TOWARD_ZERO),
    "flushed": flushed,
}

rng = np.random.default_rng(0)
#: binades from fp32's subnormals to 2^60, both signs, none of them special
FLOATS = np.ldexp(rng.uniform(-2, 2, 600), rng.integers(-150, 60, 600)).astype(np.float32)
DOUBLES = np.concatenate(
    [
        np.ldexp(rng.uniform(-2, 2, 200), rng.integers(-1074, -900, 200)),
        FLOATS[:200].astype(np.float64) / 3,
    ]
)
TINY = (rng.standard_normal((4, 96)) * 2.0 ** rng.integers(-149, -126, 96)).astype(np.float32)
HALVES = rng.integers(0, 0x7C00, 200, dtype=np.uint16).view(np.float16)
USUAL = (rng.standard_normal((4, 96)) * 2.0 ** rng.integers(-20, 1, 96)).astype(np.float32)
SMALL, THIRDS, WIDE = TINY * np.float32(2.0**40), USUAL / 3, TINY.astype(np.float64)
LEVELS = np.linspace(-3.7, 4.1, 7)
SPECS = [
    "none:bf16", "aps:e4m3", "aps:e5m2,rounding=stochastic", "aps:e4m3,unit=10",
    "loss_scaling:e5m2,scale=1000", "stochastic:e4m3", "natural",
    "qsgd", "terngrad", "zipml:levels=5", "bit_centering", "sign", "sign:scale=l2", "sign_vote",
    "onebit_adam", "birder", "residual(qsgd)", "fp8_two_shot:e4m3fn", "quickreduce",
    "multipoint", "multipoint:zero=false", "thc", "thc:table=symmetric,grid=1001", "integer_allreduce:rounding=stochastic",
    "fft_sparse", "top_k", "random_k:keep=0.3", "powersgd:rank=1", "mx", "nvfp4",
    "delayed_scaling:e5m2", "current_scaling:e4m3,agree=local", "fp8_allreduce:e4m3",
    "fp8_allreduce:e4m3,agree=scale,auto_scaling=0.001", "cpd:e5m2",
    "adaptive_loss_scaling:fp16", "hfp8:e5m2",
    "error_feedback(aps:e3m0),decay=0.9", "zero_blocks",
]  # fmt: skip
REPLAYED = [
    *SPECS,
    "loss_scaling:e4m3,scale=largest",
    "dynamic_loss_scaling:fp16",
    "deepspeed_loss_scaling:e5m2",
    "logmax_loss_scaling:fp16",
    "enhanced_loss_scaling:e5m2",
    "hybrid(last=none:fp16;else=aps:e4m3)",
]


def casts() -> list:
    made: list = []
    for name in ("bf16", "fp32", "e4m3", "e2m3b140", "fp64"):
        for x in (FLOATS, DOUBLES):
            for mode in ("ties_to_even", "toward_positive", "stochastic", "stochastic_exact"):
                made.append(apscope.quantize(x, name, rounding=mode))
            for scale in (2.0**20, 1000 / 3):  # the product exact, and rounded
                made.append(apscope.quantize(x, name, scale=scale))
            codes = apscope.encode(x, name)
            made += [codes, apscope.decode(codes, name)]
    made += [
        apscope.quantize(HALVES, "e4m3"),
        apscope.quantize(torch.from_numpy(FLOATS).bfloat16(), "bf16").float().numpy(),
    ]
    made += list(apscope.cast_statistics(FLOATS, "e5m2").to_dict().items())
    for topology in ("exact", "ring", "sequential+kahan"):
        made.append(apscope.allreduce(TINY, "bf16", topology=topology, threads=2))
    return made


def arithmetic() -> list:
    made: list = []
    for a in (FLOATS, DOUBLES):
        b = a[::-1].copy()
        for f in (apscope.add, apscope.subtract, apscope.multiply, apscope.divide):
            made += [f(a, b, "bf16"), f(a, b, "fp64")]
        made += [
            apscope.add(a, 0.0, "e11m4b1070nosub", underflow="flush_input"),
            apscope.multiply(a, 1.0, "e11m51sub-1023", rounding="away_from_zero"),
            apscope.sum(a, "fp64"),
            apscope.dot(a, np.ones_like(a), "fp64", order="exact"),
        ]
        made += [apscope.sqrt(abs(a), "fp64"), apscope.fma(a, b, a, "bf16")]
        for order in ("sequential", "chunked:7", "kahan", "exact"):
            made += [apscope.sum(a, "bf16", order=order), apscope.dot(a, b, "bf16", order=order)]
    made.append(apscope.matmul(TINY, TINY.T.copy(), "bf16"))
    fp16 = apscope.quantize(TINY, "fp16")
    for unit in ("h100", "h100:fp16", "mi250x", "mi300x"):
        result = apscope.units(unit)[0]["result"]
        made.append(apscope.matmul(fp16, fp16.T.copy(), result, order=f"unit:{unit},inputs=fp16"))
    made += [str(apscope.plan(op, "bf16")) for op in ("quantize", "add", "sum", "matmul")]
    return made


def blocks() -> list:
    made: list = []
    for name in ("mxfp8_e5m2", "mxint8", "nvfp4", "bfp:6:8"):
        for x in (TINY, USUAL, SMALL):
            made.append(apscope.quantize_blocks(x, name))
            encoded = apscope.encode_blocks(x, name)
            decoded = apscope.decode_blocks(
                encoded.codes, encoded.scales, name, tensor_scale=encoded.tensor_scale
            )
            made += [encoded.codes, encoded.scales, encoded.tensor_scale, decoded]
    packed = apscope.pack(np.arange(16, dtype=np.uint8), 4)
    return [*made, packed, apscope.unpack(packed, 4, 16)]


def exchanges() -> list:
    made: list = []
    for spec in SPECS:
        for g in (TINY, USUAL):
            e = apscope.exchange(spec, g)
            e = apscope.exchange(spec, g[:, ::-1], state=e.state, step=1)
            made += [e.sent, e.reduced, e.payload, e.scale_exponent, *e.state.values()]
    made += [
        apscope.exchange(
            apscope.schemes.define(
                "halves", "aps:e4m3", encode=lambda step, theta, x, worker: x / 3
            ),
            TINY,
        ).reduced
    ]
    return made


def replays() -> list:
    frames = [
        apscope.replay(
            apscope.open_trace(DATA / "digits"),
            REPLAYED,
            steps="0:2",
            tensors="conv1|bias",
            draws=3,
            threads=2,
        )
    ]
    frames[0].save(FOLDER / "results", force=True)
    options = _core.ReplayOptions(REPLAYED, ["ring"], [0, 2], [0, 1], 8)
    trace = apscope.open_trace(DATA / "digits").core
    frames.append(_core.read_statistics(trace, options, [0, 3]))
    _core.check_memory(trace, options)
    return [
        *frames[1],
        (FOLDER / "results" / "results.csv").read_bytes(),
        frames[0].frame,
        frames[0].histograms,
    ]


def observers() -> list:
    trace = apscope.open_trace(DATA / "digits")
    results = apscope.replay(trace, ["aps:e4m3", "stochastic:e4m3"], steps="0:2", topology="ring")
    levels = apscope.studies.levels.optimal_levels
    made: list = [
        *vars(levels(TINY.ravel(), 5)).values(),
        *vars(levels(USUAL.ravel(), 5, "exact")).values(),
    ]
    made += [
        apscope.studies.weight_updates.underflow_curve(TINY, "fp16", exponents=range(100, 160, 5)),
        apscope.studies.weight_updates.underflow_curve(DOUBLES[:200], "fp64", exponents=range(25)),
    ]
    made += [
        apscope.cost.step_time(results),
        vars(apscope.cost.collective("ring", 1e6 / 3, 8)),
        apscope.cost.collective("ring", 1e6 / 3, 8, nodes=2).seconds(apscope.cost.Network(nodes=2)),
        sorted(_core.known_links()),
        pool(results.frame, ["scheme", "stage"]),
    ]
    made += [
        results.summary(),
        results.compare("aps:e4m3", "stochastic:e4m3"),
        results.compare("aps:e4m3,rule=ceil@ring", "stochastic:e4m3"),
        comparison.ratios(results, "aps:e4m3", "stochastic:e4m3"),
    ]
    made += [
        results.pool(["scheme", "tensor"]),
        headline_rows(results.frame),
        np.array([headline_topology(results.frame)], object),
        np.array([is_own("gather+vote")]),
        apscope.replay(
            trace, "aps:e4m3", steps=[0], tensors="conv", shard=(0, 1), topology="ring"
        ).frame,
        *step_losses(losses(results.frame)),
    ]
    made += [
        results.by("layer"),
        results.against(results),
        results.noise_facts("step"),
        np.array([_core.student_t(6.3), _core.log_bias(0.7), _core.bias_of_log_variance(-0.1, 5)]),
    ]
    modelled = guarded(seconds.linear_seconds)(
        results.frame[results.frame["topology"] == "ring"],
        *np.zeros((2, (results.frame["topology"] == "ring").sum()), int),
        (1, 1),
        apscope.cost.Network(),
        1e6,
    )
    made += [modelled[0], np.array(modelled[1].side)]
    made += list(
        vars(
            apscope.studies.double_sampling.gradients(USUAL, THIRDS[0], THIRDS[:, 0], LEVELS)
        ).values()
    )
    made += [
        apscope.studies.unit_scaling.unit_scales([7, 3, 5], 11),
        apscope.studies.fractrain.relative_cost([3, 5], [4, 4], [7, 8]),
    ]
    made += [
        apscope.studies.activation_scales.layer_scale(TINY, USUAL, u_min=2.0**-140),
        apscope.studies.activation_scales.join_scales([2.0, 8.0], [1e-39, 1e-40]),
        apscope.studies.activation_scales.cast_scale(TINY, u_min=2.0**-140),
    ]
    made += [
        apscope.studies.activation_scales.layer_scales(trace, 0),
        apscope.studies.unit_scaling.layer_deviations(trace, 0),
        apscope.studies.weight_updates.update_underflow(trace, "bf16"),
    ]
    made += [
        vars(apscope.studies.weight_updates.weight_residual(w, u))
        for w, u in ((USUAL[0], THIRDS[1:]), (TINY[0], TINY[1:]))
    ]
    made += list(vars(apscope.studies.weight_updates.sgd_updates(trace, "conv2.weight")).values())
    made += [apscope.studies.attribution.loss_change(trace, "aps:e4m3", steps="0:2")]
    made += [vars(apscope.studies.attribution.path_loss_change(lambda w: w**3, WIDE[0], THIRDS[0]))]
    return made


def registries() -> list:
    made: list = [
        [str(f) for f in apscope.named_formats()],
        str(apscope.named_block_formats()),
        str(apscope.identify(torch.float8_e4m3fn)),
    ]
    for name in ("fp64", "fp32", "e4m3", "e11m52", "e8m0fnu"):
        f = apscope.FloatFormat(name)
        made += [
            f.largest,
            f.smallest_normal,
            f.smallest_positive,
            f.to_json(),
            hash(f) == hash(apscope.FloatFormat(name)),
        ]
    made += [
        apscope.schemes.definitions(),
        [str(apscope.schemes.as_scheme(spec)) for spec in REPLAYED],
        _core.main_schemes(),
        _core.all_schemes(),
    ]
    x = np.float32([[0.3, 1e-3], [-7.0, 2.5e-6]])
    made += [
        _core.cpd_cast(x, 5, 2),
        _core.cpd_gemm(x, x, 5, 2, 1),
        _core.cpd_exponent(0.3),
        _core.fsdp_divisors(6),
        _core.fixed_log2(np.array([3.0, 1e-9])),
        _core.fixed_exp2(0.3),
        _core.block_squares(np.float64([[0.3, 1e-3], [-7.0, 2.5e-6]]), 2),
        _core.rate_limit(
            _core.blurred_entropies(np.linspace(-1.5, 2.5, 64), _core.blur_widths(), 1),
            _core.blur_widths(),
            np.array([2.0]),
        ),
        _core.numerically_zero(
            np.array([1.0, 3e-9]),
            np.array([0.3, 1e-9]),
            np.array([7.0, 5.0]),
            np.array([0, 1]),
            np.array([0, 0]),
        ),
    ]
    made += [
        apscope.Draws(3).next(),
        _core.rounding_modes(),
        _core.orders(),
        _core.topologies(),
        _core.is_order("ring"),
        _core.overflow_modes(),
        _core.underflow_modes(),
        _core.best_simd_level(),
    ]
    p = _core.Projection("stochastic_a", "saturate_finite", "flush_both", True, 8)
    made += [p.rounding, p.overflow, p.underflow, p.keep_payload, p.random_bits]
    level = _core.simd_level()
    _core.set_simd_level(level)
    return made


GROUPS = [casts, arithmetic, blocks, exchanges, replays, observers, registries]
#: functions of _core that these do not call: they measure times, or compute no number
UNCALLED = {"bench", "guess_role", "machine_memory", "rounding_word",
            "set_share_of_a_thread", "usable_processors", "work_costs"}  # fmt: skip


def content(value: object) -> bytes:
    """All bits of a result."""
    if isinstance(value, pd.DataFrame):
        return b"".join(content(value[c].to_numpy()) for c in value.columns)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tobytes()
    if isinstance(value, np.ndarray):
        return b"".join(content(v) for v in value.tolist())
    if isinstance(value, (list, tuple)):
        return b"(" + b",".join(content(v) for v in value) + b")"
    if isinstance(value, dict):
        return content(list(value.items()))
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if hasattr(value, "__dataclass_fields__"):
        return content(vars(value))
    return value if isinstance(value, bytes) else str(value).encode()


def digests(made: list) -> list[str]:
    return [hashlib.sha256(content(v)).hexdigest() for v in made]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    global FOLDER
    FOLDER = tmp_path_factory.mktemp("environment")


@pytest.fixture(scope="module")
def expected(folder):
    return {group.__name__: digests(group()) for group in GROUPS}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_the_callers_environment_changes_no_byte_and_comes_back(group, environment, expected):
    with ENVIRONMENTS[environment]():
        made = group()
    got = digests(made)
    assert [
        i for i, (a, b) in enumerate(zip(got, expected[group.__name__], strict=True)) if a != b
    ] == []


def test_every_function_of_the_core_is_among_them(monkeypatch):
    functions = {
        n for n in dir(_core) if not n.startswith("_") and inspect.isbuiltin(getattr(_core, n))
    }
    called = set()

    def recorded(name: str, function: Callable) -> Callable:
        def call(*args, **kwargs):
            called.add(name)
            return function(*args, **kwargs)

        return call

    for name in functions:
        monkeypatch.setattr(_core, name, recorded(name, getattr(_core, name)))
    for group in GROUPS:
        group()
    assert functions - called == UNCALLED
