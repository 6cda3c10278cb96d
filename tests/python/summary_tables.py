"""A RESULTS table of random rows with all special cases."""

import math

import numpy as np
import pandas as pd

from apscope import Results
from apscope._results.pooling import PARTS
from tests.reference.summaries import held

TOPOLOGIES = ("exact", "ring", "sequential")
MIXED = "hybrid(last=qsgd;else=aps:e4m3)"
OWN_ONLY = "hybrid(last=sign_vote;else=qsgd)"
LOSS_SCALING = "loss_scaling:e4m3,scale=largest"
SCHEMES = (
    "none:fp32",
    "aps:e4m3",
    "loss_scaling:e4m3,scale=largest",
    "dynamic_loss_scaling:e4m3",
    "qsgd",
    MIXED,
    OWN_ONLY,
    "mine(1)",
)
LAYERS = ("conv", "norm", "all", "head")
STEPS = (0, 3, 7, 20)


def row(random, trace, step, tensor, scheme, stage, topology, **given):
    """One row with random numbers, whose sums belong together."""
    n = int(random.integers(4, 40))
    reference = float(10.0 ** random.uniform(-8, 2))
    found = {
        "trace": trace, "step": step, "tensor": tensor, "role": "", "scheme": scheme,
        "format": "e4m3", "topology": topology, "workers": 4,
        "stage": stage, "count": n * (4 if stage == "wire" else 1), "counted": n, "nonzero": n - 1,
        "underflow": int(random.integers(0, n - 1)),
        "subnormal": pd.NA, "saturated": pd.NA, "overflow": 0, "nan": 0, "infinite": 0,
        "sum_error": random.normal(),
        "sum_signed_error": random.normal(),
        "sum_squared_error": reference * 10.0 ** random.uniform(-6, 0.5),
        "sum_absolute_reference": 1 + random.random(),
        "sum_squared_reference": reference,
        "sum_product": reference * random.uniform(-0.5, 1.5), "cosine": random.uniform(-1, 1),
        "expected_variance": random.random(),
        "volume": np.nan if stage == "wire" or topology == "exact" else random.random(),
        "wire_bits": 8 * n, "side_bits": 8, "skipped": False, "note": "",
        "block_count": n // 4 if scheme == MIXED else pd.NA, "block_saturated": pd.NA,
    }  # fmt: skip
    found |= {part: np.nan if scheme == "qsgd" else random.normal() for part in PARTS}
    noise = {
        "sum_noise": reference * random.random(),
        "noise_blocks": n // 8 + 1,
        "sum_log2_error_over_noise": float(random.uniform(-40, 5)),
    }
    if held(given.get("overflow", 0)) and given.get("overflow", 0) > 0:
        noise["sum_log2_error_over_noise"] = math.inf
    # The noise is unknown for the wire, for the second trace, and for rows without numbers.
    known = stage == "reduced" and trace != "second" and not given.get("note")
    return (
        found
        | (
            noise
            if known
            else {"sum_noise": np.nan, "noise_blocks": pd.NA, "sum_log2_error_over_noise": np.nan}
        )
        | given
    )


SKIPPED = {"underflow": pd.NA, "overflow": pd.NA, "sum_error": np.nan, "sum_signed_error": np.nan,
           "sum_squared_error": np.nan, "sum_product": np.nan,
           "cosine": np.nan, "expected_variance": np.nan,
               "skipped": True} | dict.fromkeys(PARTS, np.nan)  # fmt: skip
ZERO = {"counted": 5, "nonzero": 0, "underflow": 0, "sum_error": 0.0, "sum_signed_error": 0.0,
        "sum_squared_error": 0.0, "sum_product": 0.0,
        "sum_absolute_reference": 0.0, "sum_squared_reference": 0.0, "cosine": np.nan,
            "expected_variance": 0.0} | dict.fromkeys(PARTS, 0.0)  # fmt: skip
UNMEASURED = (
    dict.fromkeys(("counted", "nonzero", "underflow", "overflow", "nan", "infinite"), pd.NA)
    | dict.fromkeys(
        (
            "sum_error",
            "sum_signed_error",
            "sum_squared_error",
            "sum_product",
            "sum_absolute_reference",
            "sum_squared_reference",
            "cosine",
            "expected_variance",
            "volume",
            *PARTS,
        ),
        np.nan,
    )
    | {"note": "not measurable on this trace: needs weights"}
)
LOST = {"cosine": np.nan, "underflow": 3}  # y = 0 everywhere


def table():
    """Three traces: two with reduced rows, one with the wire's only; every odd thing that rows can
    hold."""
    random = np.random.default_rng(5)
    rows = []
    for trace in ("first", "second", "wire only"):
        for step in STEPS:
            for tensor in LAYERS:
                for scheme in SCHEMES:
                    if trace == "second" and scheme == "qsgd":
                        continue
                    given = {}
                    if scheme.startswith("dynamic") and step in (0, 7):
                        given = SKIPPED
                    elif scheme.startswith("dynamic") and step == 3 and tensor == "norm":
                        given = SKIPPED  # a policy may skip a part of a step
                    elif step == 20 and trace == "first":
                        given = ZERO | ({"sum_squared_error": 1e-3} if tensor == "conv" else {})
                    elif tensor == "all" and step == 3:
                        given = ZERO
                    elif scheme == "mine(1)":
                        given = UNMEASURED if trace == "first" or tensor == "head" else {}
                    elif scheme.startswith("aps") and tensor == "norm":
                        given = LOST
                    elif (
                        scheme.startswith("none")
                        and step == 7
                        and tensor == "head"
                        and trace != "wire only"
                    ):
                        given = {"overflow": 2} | (
                            {
                                "sum_squared_reference": 0.0,
                                "sum_squared_error": 0.0,
                                "cosine": np.nan,
                            }
                            if trace == "second"
                            else {}
                        )
                    rows.append(row(random, trace, step, tensor, scheme, "wire", "", **given))
                    if trace == "wire only":
                        continue
                    mine = TOPOLOGIES
                    if scheme == "qsgd" or (scheme == MIXED and tensor == "head"):
                        mine = ("exact", "gather")
                    elif scheme == OWN_ONLY:
                        mine = ("exact", "vote" if tensor == "head" else "gather")
                    rows += [
                        row(random, trace, step, tensor, scheme, "reduced", t, **given)
                        for t in mine
                    ]
    frame = pd.DataFrame(rows)
    integers = """
        step workers count counted nonzero underflow subnormal saturated overflow nan infinite
        wire_bits side_bits block_count block_saturated noise_blocks
    """.split()
    return frame.astype(dict.fromkeys(integers, "Int64"))


def random_results():
    return Results(
        table(), pd.DataFrame(), {"traces": [{"name": n} for n in ("first", "second", "wire only")]}
    )
