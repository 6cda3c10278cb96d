"""Constructors of the scheme classes: real signatures, defaults that change nothing, one sentence
per error."""

import inspect

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import schemes
from apscope.schemes import (
    APS,
    QSGD,
    ErrorFeedback,
    FracTrain,
    Hybrid,
    LossScaling,
    Scheme,
    Sign,
    definitions,
)

FIRST = {
    "scheme": ("scheme", "aps:e4m3"),
    "policy": ("branches", {"last": "none:fp16", "else": "aps:e4m3"}),
    "": ("format", "e4m3"),
}
CLASSES = [pytest.param(d, id=d.class_name) for d in definitions()]


def first_of(d):
    return FIRST[d.body] if d.body or d.takes_format else None


@pytest.mark.parametrize("d", CLASSES)
def test_signatures_have_the_registrys_keys_with_their_defaults(d):
    cls = getattr(schemes, d.class_name)
    parameters = inspect.signature(cls).parameters
    first = first_of(d)
    assert [name for name in parameters if name != "projection"] == [
        *([first[0]] if first else []),
        *(key.name for key in d.keys),
    ]
    assert all(
        (p.kind is inspect.Parameter.KEYWORD_ONLY) == (name != "block_format")
        for name, p in parameters.items()
        if not first or name != first[0]
    )
    assert list(inspect.signature(cls.__init__).parameters)[1:] == list(parameters)
    for key, default in ((key.name, key.default) for key in d.keys):
        value = parameters[key].default
        assert (
            str(value).lower() if isinstance(value, bool) else str(value)
        ) == default or f"{value:g}" == default.replace("e-", "e-0")
        assert f"{key} : default {value!r}\n" in cls.__doc__


@pytest.mark.parametrize("d", CLASSES)
def test_defaults_given_in_full_leave_the_spec_as_it_is(d):
    cls, first = getattr(schemes, d.class_name), first_of(d)
    defaults = {
        name: p.default
        for name, p in inspect.signature(cls).parameters.items()
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }
    bare = cls(first[1]) if first else cls()
    assert (cls(first[1], **defaults) if first else cls(**defaults)).spec == bare.spec
    if first:
        assert cls(**{first[0]: first[1]}) == bare


@pytest.mark.parametrize("d", CLASSES)
def test_what_is_missing_is_one_sentence(d):
    cls, first = getattr(schemes, d.class_name), first_of(d)
    if first is None:
        with pytest.raises(
            TypeError,
            match=f"^{d.class_name} takes (its block_format and then )?keys by name, such as .*; 5 has "
            "no name$",
        ):
            cls(5)
        return
    with pytest.raises(
        TypeError, match=f"^{d.class_name} needs (a )?{first[0]}, such as {d.class_name}\\("
    ):
        cls()
    with pytest.raises(
        TypeError,
        match=f"^{d.class_name} takes its {first[0]} and then keys by name, .*; 5 has no name$",
    ):
        cls(first[1], 5)


def test_a_wrong_key_is_told_the_near_one():
    with pytest.raises(TypeError, match="scheme 'aps' has no key 'headrom'; did you mean headroom"):
        APS("e4m3", headrom="one")
    with pytest.raises(TypeError, match="scheme 'qsgd' has no key 'levls'; did you mean levels"):
        QSGD(levls=[3])
    with pytest.raises(ValueError, match="unknown format 'e4m3fm'.*; did you mean e4m3fn"):
        APS("e4m3fm")


def test_a_wrong_value_is_a_value_error():
    with pytest.raises(ValueError, match="headroom=on is not one of workers, sqrt_workers, one"):
        APS("e4m3", headroom="on")
    with pytest.raises(TypeError, match="branches is of type list; give a mapping"):
        Hybrid(["aps:e4m3"])
    with pytest.raises(TypeError, match="format is of type int; give a FloatFormat"):
        APS(5)
    with pytest.raises(TypeError, match="scheme is int; give a Scheme"):
        ErrorFeedback(5)
    for wrong, kind in ((["to_odd"], "list"), (None, "NoneType"), ({"to_odd"}, "set")):
        with pytest.raises(
            TypeError,
            match=rf"^rounding=.* is of type {kind}; give text, a "
            r"number, True or False, or a format$",
        ):
            APS("e4m3", rounding=wrong)


@pytest.mark.parametrize("d", CLASSES)
def test_a_projection_stands_for_the_keys_that_are_its_parts(d):
    cls, first = getattr(schemes, d.class_name), [first_of(d)[1]] if first_of(d) else []
    parts = [key.name for key in d.keys if key.name in ("rounding", "overflow", "random_bits")]
    parameters = list(inspect.signature(cls).parameters)
    if "rounding" not in parts:
        with pytest.raises(TypeError, match=f"scheme '{d.name}' has no key"):
            cls(*first, projection=apscope.Projection())
        return
    assert (
        parameters[parameters.index("projection") + 1] == "rounding"
        and "\nprojection : Projection, optional\n" in cls.__doc__
    )
    asked = {"rounding": "stochastic", "overflow": "saturate", "random_bits": 8}
    for given in ({}, {part: asked[part] for part in parts}):
        projection = apscope.Projection(**given)
        made = cls(*first, projection=projection)
        assert made == cls(
            *first, **{part: getattr(projection, part) for part in parts}
        ) and "projection" not in repr(made)
    for part in parts:
        with pytest.raises(
            ValueError,
            match=f"^projection and {part} are both given, but one "
            "is a part of the other; omit one$",
        ):
            cls(*first, projection=projection, **{part: asked[part]})
    for part, value in {
        "overflow": "saturate",
        "underflow": "flush_both",
        "keep_payload": True,
    }.items():
        if part not in parts:
            with pytest.raises(
                ValueError,
                match=f"^the projection has {part}={value!r}, which scheme '{d.name}' does not "
                "support; leave it at",
            ):
                cls(*first, projection=apscope.Projection(**{part: value}))
    with pytest.raises(TypeError, match="^projection is of type str; give a Projection"):
        cls(*first, projection="to_odd")


def test_formats_truth_values_and_dtypes_are_values_of_keys():
    assert APS(ml_dtypes.float8_e4m3fn, accumulate=np.float32).spec == "aps:e4m3fn,accumulate=fp32"
    assert (
        APS(apscope.FloatFormat("e4m3"), accumulate=apscope.FloatFormat("fp16")).spec
        == "aps:e4m3,accumulate=fp16"
    )
    assert schemes.CPD("e4m3", kahan=True).spec == "cpd:e4m3,kahan=true" and schemes.CPD(
        "e4m3", aps=True
    ) == Scheme("cpd:e4m3")
    assert (
        LossScaling("e4m3", scale="largest")
        == LossScaling("e4m3", scale="largest", headroom="workers")
        == Scheme("loss_scaling:e4m3,scale=largest")
    )
    assert ErrorFeedback(Sign(), decay=0.5).spec == "error_feedback(sign),decay=0.5"
    assert FracTrain(least_scale=1e-8).spec == "fractrain"


def test_a_notebook_offers_the_keys():
    ipython = pytest.importorskip("IPython.core.completer")
    with ipython.provisionalcompleter():
        for typed in ("APS('e4m3', ", "APS('e4m3', r"):
            offered = {
                c.text
                for c in ipython.IPCompleter(namespace={"APS": APS}, use_jedi=False).completions(
                    typed, len(typed)
                )
            }
            assert {"rule=", "rounding=", "random_bits="} <= offered


#: What is typed, and what is offered then.
TYPED = [
    ("apscope.schemes.APS(", "headroom="),
    ('apscope.schemes.APS("e4m3", rou', "rounding="),
    ("apscope.schemes.Dyn", "DynamicLossScaling"),
    ("apscope.schemes.QSGD(lev", "levels="),
    ('apscope.schemes.Scheme("aps:e4m3").', "needs"),
    ('apscope.FloatFormat("e4m3").smallest_', "smallest_normal"),
    ('apscope.quantize(x, "e4m3", ', "out="),
]


@pytest.mark.parametrize(
    "typed, offered",
    [*TYPED, ("APS(", "headroom="), ('apscope.quantize(x, "e4m3", rou', "rounding=")],
)
def test_a_notebook_completes_what_has_been_imported(typed, offered):
    jedi = pytest.importorskip("jedi")
    assert offered in {
        c.name for c in jedi.Interpreter(typed, [{"apscope": apscope, "APS": APS}]).complete()
    }


@pytest.mark.parametrize(
    "typed, offered",
    [
        *((f"import apscope\n{typed}", offered) for typed, offered in TYPED),
        ("from apscope.schemes import APS\nAPS(", "headroom="),
    ],
)
def test_an_editor_completes_what_has_not_run(typed, offered):
    jedi = pytest.importorskip("jedi")
    assert offered in {c.name for c in jedi.Script(typed).complete()}


@pytest.mark.parametrize(
    "spec, wanted",
    [
        (
            "aps:e4m3,unit=x",
            "unit=x must be model, bucket:SIZE .as bucket:25MB., "
            "tensor, row or an integer from 1 to",
        ),
        ("loss_scaling:e4m3,scale=x", "scale=x must be largest, best or a positive fp32 number"),
        ("dynamic_loss_scaling:e4m3,init=x", "init=x must be auto or a positive fp32 number"),
    ],
)
def test_a_refusal_names_the_word_that_a_key_takes_beside_numbers(spec, wanted):
    with pytest.raises(ValueError, match=f"^{wanted}"):
        schemes.Scheme(spec)


@pytest.mark.parametrize("depth", [65, 5_000, 50_000])
def test_specs_that_nest_too_deep_are_one_sentence(depth):
    """Each level is a call: without a limit the process ends."""
    with pytest.raises(
        ValueError, match=r"^scheme 'error_feedback\(.*' nests more than 64 schemes; nest fewer$"
    ) as caught:
        apscope.schemes.Scheme("error_feedback(" * depth + "sign" + ")" * depth)
    assert len(str(caught.value)) < 200
