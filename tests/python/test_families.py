"""What schemes compete as: every summary shows the best of each family."""

from __future__ import annotations

import numpy as np
import pytest

import apscope
from apscope.schemes import Scheme

FAMILIES = {
    "unscaled": {"none"},
    "mixed": {"hybrid"},
    "": {"error_feedback", "residual"},  # of what they hold
    "APS": {"aps", "cpd"},
    "loss scaling": {
        "loss_scaling", "dynamic_loss_scaling", "deepspeed_loss_scaling", "enhanced_loss_scaling", "adaptive_loss_scaling", "hfp8",
    },
    "recipe": {"delayed_scaling", "current_scaling", "fp8_allreduce", "mx", "nvfp4"},
    "stochastic": {"stochastic", "natural", "qsgd", "terngrad", "zipml", "bit_centering", "fractrain"},
    "one bit": {"sign", "sign_vote", "onebit_adam", "birder", "multipoint"},
    "transform": {"fft_sparse", "top_k", "zero_blocks", "powersgd", "thc", "integer_allreduce"},
}  # fmt: skip


def test_every_definition_says_its_family():
    found: dict[str, set[str]] = {}
    for d in apscope.schemes.definitions():
        found.setdefault(d.family, set()).add(d.name)
    assert found == FAMILIES


@pytest.mark.parametrize(
    ("spec", "family"),
    [
        ("none:fp32", "baseline"),
        ("none:bf16", "baseline"),
        ("none:fp16,rounding=stochastic", "baseline"),
        ("none:e4m3", "unscaled"),
        ("none:tf32", "unscaled"),
        ("aps:e4m3,rounding=stochastic", "APS"),
        ("error_feedback(aps:e4m3)", "APS"),
        ("residual(qsgd)", "stochastic"),
        ("residual(none:bf16)", "baseline"),
        ("error_feedback(residual(sign))", "one bit"),
        ("hybrid(last=none:fp16;else=aps:e4m3)", "mixed"),
        ("multipoint", "one bit"),
    ],
)
def test_a_schemes_family_follows_from_its_spec(spec, family):
    assert Scheme(spec).family == family
    assert Scheme(Scheme(spec).spec).family == family


def test_schemes_of_the_users_are_other_whatever_they_start_from():
    mine = apscope.schemes.define("family_of_mine", "aps:e4m3", encode=lambda step, theta, x, worker: np.sign(x))
    assert mine.family == "other" and Scheme("error_feedback(family_of_mine)").family == "other"
