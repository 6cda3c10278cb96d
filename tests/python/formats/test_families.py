"""Families of schemes: every summary shows the best of each."""

import numpy as np
import pytest

import apscope
from apscope.schemes import Scheme

#: Folders of emulation/schemes, and what their schemes compete as.
FAMILIES = {
    "baseline": "unscaled",
    "aps": "APS",
    "loss_scaling": "loss scaling",
    "recipes": "recipe",
    "stochastic_grids": "stochastic",
    "one_bit": "one bit",
    "transforms": "transform",
}


def test_a_file_is_a_scheme_of_its_folders_family(request):
    definitions = {d.name: d for d in apscope.schemes.definitions()}
    root = request.config.rootpath / "emulation/schemes"
    files = [f for folder in FAMILIES for f in (root / folder).glob("*.cpp")]
    assert sorted(f.stem for f in files) == sorted(definitions)
    for file in files:
        found = definitions[file.stem]
        special = {
            "policy": "mixed",
            "scheme": "",
        }  # a combinator has the family of its inner scheme
        assert found.family == special.get(found.body, FAMILIES[file.parent.name]), file


def test_a_family_stands_together_and_combinators_come_last():
    order = [d.family for d in apscope.schemes.definitions() if d.family not in ("", "mixed")]
    assert list(dict.fromkeys(order)) == list(FAMILIES.values()) and order == sorted(
        order, key=list(FAMILIES.values()).index
    )


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
    mine = apscope.schemes.define(
        "family_of_mine", "aps:e4m3", encode=lambda step, theta, x, worker: np.sign(x)
    )
    assert mine.family == "other" and Scheme("error_feedback(family_of_mine)").family == "other"
