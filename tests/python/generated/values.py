"""Values that callers give: right ones by the name of the parameter, and odd ones that fit nowhere
or almost."""

import functools
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import apscope

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "notebooks/data/digits"
SCHEMES = ["aps:e4m3", "none:e4m3", "qsgd"]
#: APSCOPE_EXAMPLES=N: N times as many examples as by default, other ones every time.
MORE = int(os.environ.get("APSCOPE_EXAMPLES", "0"))


def examples(count: int) -> settings:
    """The settings of a test with `count` examples by default, the same ones on every machine."""
    return settings(
        max_examples=count * max(MORE, 1),
        derandomize=not MORE,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@functools.cache
def results() -> apscope.Results:
    """A small replay."""
    return apscope.replay(
        str(DIGITS), SCHEMES, topology=["ring"], steps="0:2", workers=2, tensors="bias"
    )


@functools.cache
def saved() -> Path:
    """The same as a folder, beside which nothing else stands."""
    return results().save(Path(tempfile.mkdtemp(prefix="apscope-generated-")) / "results")


def _array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.linspace(-3, 5, math.prod(shape)).reshape(shape).astype(dtype)


#: Texts that are nearly names, specs, numbers or selections, or far from it.
TEXTS = [
    "", " ", "x", "-", "0", "1", "-1", "2:1", "0:1", ":", "1e999", "nan", "9" * 5000, "0x10",
    "a\nb", "a\tb", "\x1b[31m", "\ud800", "\u202e", "é", "e4m3", "e4m", "e99m99",
    "e4m3b9999", "e4m3b-2147483648", "fp8", "bf16", "mxfp8_e4m3", "bfp:8:0", "blocks:int9", "ring",
    "tree+kahan", "hierarchical:0", "hierarchical:99999999999", "hierarchical:2(ring", "aps",
    "aps:e4m3", "aps:e4m3,unit=", "aps:e4m3,unit=-1", "qsgd:levels=0", "qsgd:levels=1e9",
    "error_feedback(", "error_feedback(error_feedback(sign))", "hybrid(last=none:fp16)",
    "hybrid(name:(=fp32;else=sign)", "hybrid(name:[a=fp32;else=sign)", "none:e4m3,=",
    "none:e4m3,rounding=x", "(" * 40, "main", "all", "ties_to_even", "stochastic", "(", "[", "*",
    "../..",
    "/dev/null", "/nowhere/x", "s3://bucket/x", "weight", "digits", "json", "%s%n", "{}", "None",
    "error_feedback(" * 5000 + "sign" + ")" * 5000,
    "hybrid(name:" + "(" * 20_000 + ")" * 20_000 + "=fp32;else=sign)", "[" * 100_000,
    "e4m3" * 10_000,
]  # fmt: skip

_ODD: list[Any] = [
    None, True, 0, 1, -1, 7, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e308, math.nan,
    math.inf, 1j, b"", b"e4m3", [], [[]], [1, 2], ["a"], [None], (), {}, {"a": 1},
    set(), range(3), slice(None), object(), len, int, "e4m3".upper, Path(), Path("x"),
    np.float32(1), np.int8(-1), np.datetime64("2020"), np.dtype("float32"), np.float32,
    ml_dtypes.float8_e4m3fn, _array(6), _array(2, 3), _array(2, 3).T, _array(0), np.float64(2.5),
    np.zeros((2, 0, 3), np.float32), _array(6)[::-2], np.array(3.5),
    _array(4, dtype=np.float64), _array(4, dtype=np.float16), _array(4, dtype=np.int8),
    np.arange(17, dtype=np.uint8)[1:].view(np.float32),
    _array(4, dtype=np.uint64), _array(4, dtype=bool), _array(4, dtype=complex), np.array(["a"]),
    np.array([None, 1], object), np.zeros(2, "f4,i4"), _array(4).astype(">f4"),
    np.array([math.nan, math.inf, -0.0, 1e-45], np.float32), _array(4, dtype=ml_dtypes.bfloat16),
    apscope.FloatFormat("e4m3"), apscope.FloatFormat("e11m52"), apscope.BlockFormat("mxfp8_e4m3"),
    apscope.Projection(), apscope.Draws(1), *TEXTS,
]  # fmt: skip

_FORMATS = [
    "e4m3",
    "bf16",
    "fp16",
    "e5m2",
    apscope.FloatFormat("e2m1"),
    ml_dtypes.bfloat16,
    "e8m23",
]
_BLOCKS = ["mxfp8_e4m3", "nvfp4", apscope.BlockFormat("bfp:8:16")]
_ARRAYS = [
    _array(6),
    _array(2, 3),
    _array(3, 2),
    _array(2, 2),
    np.float32(1.5),
    [1.0, 2.0],
    _array(4, dtype=np.float64),
    _array(4, 33),
]
_CODES = [_array(6).astype(np.uint8), np.arange(4, dtype=np.uint16), 3]


@functools.cache
def _right() -> dict[str, list[Any]]:
    """By the name of the parameter."""
    scheme = apscope.schemes.Scheme("aps:e4m3")
    trace = apscope.open_trace(DIGITS)
    names = {
        "format product accumulate operands element": _FORMATS,
        "block_format": _BLOCKS,
        "x y a b c values gradients weights in activations out": _ARRAYS,
        "codes code": _CODES,
        "topology topologies": [
            "ring",
            "tree",
            "exact",
            ["ring", "tree"],
            "hierarchical:2",
            "hierarchical:2(ring@e5m2,two_phase)",
            "nccl:ring,channels=2",
        ],
        "scheme low high first then spec like": [*SCHEMES, scheme],
        "schemes candidates": [SCHEMES, ["sign"], scheme, [scheme]],
        "results against": [results(), saved()],
        "trace source traces": [trace, DIGITS, str(DIGITS)],
        "steps": ["0:2", "1:", None, trace.steps[:2], [0]],
        "step": [0, 1],
        "tensor tensors": ["bias", trace.tensors[0], None, "head"],
        "worker": [0, 1],
        "workers": [1, 2, None],
        "rounding": ["ties_to_even", "stochastic", "to_odd", "toward_zero"],
        "overflow": ["ieee", "saturate"],
        "underflow": ["gradual", "flush_result"],
        "projection": [apscope.Projection(), None],
        "seed": [0, 1, 2**64 - 1, apscope.Draws(3)],
        "threads": [1, 2, 0],
        "random_bits": [8, 32],
        "operation": ["quantize", "add", "matmul"],
        "order": ["sequential", "pairwise"],
        "dtype": ["float32", np.float64],
        "by": ["scheme", ["scheme", "tensor"]],
        "names": [["a.b", "c"]],
        "kind": ["gradient", "weights"],
        "name": ["frame", "e4m3", "w"],
        "bits": [8, 16.5],
        "network": [apscope.cost.Network()],
        "cast": [lambda x: x, np.float16, ml_dtypes.bfloat16],
        "reduction": ["mean", "sum"],
        "operations": ["add"],
        "mantissa_bits exponent_bits": [2, 3],
        "shape": [(2, 3), (4,)],
    }
    return {name: values for every, values in names.items() for name in every.split()}


def value_of(parameter: str) -> st.SearchStrategy:
    """A value for the parameter of this name: a right one more often than not."""
    odd = st.sampled_from(_ODD)
    right = _right().get(parameter)
    return odd if right is None else st.one_of(st.sampled_from(right), st.sampled_from(right), odd)
