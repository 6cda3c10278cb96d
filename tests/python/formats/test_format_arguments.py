"""The arguments of a FloatFormat: wrong ones are reported in one sentence that names the likely
format."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope import FloatFormat
from apscope.cli import main

CASES = [
    (
        lambda: FloatFormat("e3m4", bias=6),
        "FloatFormat takes a name or fields, not 'e3m4' and bias; that format is "
        "FloatFormat('e3m4b6')",
    ),
    (
        lambda: FloatFormat("e4m3", has_infinity=False, nan_codes=1),
        "that format is FloatFormat('e4m3fn')",
    ),
    (
        lambda: FloatFormat("e4m3", has_infinity=False),
        "not 'e4m3' and has_infinity; for no infinity: specials='fn' has no infinity and one NaN, "
        "specials='finite' neither",
    ),
    (
        lambda: FloatFormat("e4m3", specials="finite"),
        "not 'e4m3' and specials; give exponent_bits, mantissa_bits and what differs",
    ),
    (
        lambda: FloatFormat(exponent_bits=3, mantissa_bits=4, infinities=False),
        "FloatFormat has no argument 'infinities'; give specials: specials='fn' has no infinity "
        "and one NaN, specials='finite' neither",
    ),
    (
        lambda: FloatFormat(exponent_bits=3, mantissa_bits=4, exponent_bias=2),
        "FloatFormat has no argument 'exponent_bias'; did you mean exponent_bits?",
    ),
    (
        lambda: FloatFormat("e4m3", quux=1),
        "FloatFormat has no argument 'quux'; its fields are exponent_bits, mantissa_bits, bias, ",
    ),
    (
        lambda: FloatFormat(4, 3),
        "FloatFormat takes its fields by name, such as exponent_bits=4, mantissa_bits=3",
    ),
    (
        lambda: FloatFormat(),
        "FloatFormat needs exponent_bits and mantissa_bits, or a format's name alone",
    ),
    (
        lambda: FloatFormat(exponent_bits=4),
        "FloatFormat needs mantissa_bits, or a format's name alone",
    ),
    (
        lambda: FloatFormat(exponent_bits="4", mantissa_bits=3),
        "exponent_bits='4' is not an integer",
    ),
    (
        lambda: FloatFormat(exponent_bits=4, mantissa_bits=3.5),
        "mantissa_bits=3.5 is not an integer",
    ),
    (
        lambda: FloatFormat(exponent_bits=4, mantissa_bits=3, is_signed="yes"),
        "is_signed='yes' is not True or False",
    ),
    (lambda: FloatFormat(exponent_bits=4, mantissa_bits=3, zero=0), "zero=0 is not a word"),
    (
        lambda: FloatFormat(3.0),
        "format is of type float; give a FloatFormat, a format's name such as 'e4m3'",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CASES)
def test_wrong_arguments_are_one_sentence(call, sentence):
    with pytest.raises(TypeError) as caught:
        call()
    assert (
        sentence in str(caught.value)
        and "\n" not in str(caught.value)
        and len(str(caught.value)) < 260
    )


@pytest.mark.parametrize(
    ("word", "meant"),
    [("e3m4b6fn", "e3m4fnb6"), ("e4m3ufinite", "e4m3finiteu"), ("e3m4b-2ufnuz", "e3m4fnuzub-2")],
)
def test_words_in_another_order_are_named_in_the_right_one(word, meant):
    with pytest.raises(ValueError, match=f"unknown format '{word}'; did you mean {meant}\\?"):
        FloatFormat(word)
    assert FloatFormat(meant).exponent_bits == int(meant[1])


def test_right_arguments_are_what_they_were():
    one = FloatFormat(exponent_bits=np.int64(3), mantissa_bits=4, bias=None)
    assert one == FloatFormat("e3m4") == FloatFormat(name="e3m4") == pickle.loads(
        pickle.dumps(one)
    ) and FloatFormat(np.float16) == FloatFormat("fp16")
    assert (
        FloatFormat(**one.to_dict()) == one and apscope.FloatFormat.from_json(one.to_json()) == one
    )
    with pytest.raises(ValueError, match="exponent_bits|between|99"):
        FloatFormat(exponent_bits=99, mantissa_bits=4)


@pytest.mark.parametrize(
    ("widths", "codes", "one_nan", "none"),
    [((4, 3), 7, "e4m3fn", "e4m3finite"), ((3, 2), 3, "e3m2nan1noinf", "e3m2fn")],
)
def test_no_infinity_beside_a_binade_of_nans_is_refused(widths, codes, one_nan, none):
    """It kept the NaNs, so that the format ended at one number of its last binade."""
    fields = dict(zip(("exponent_bits", "mantissa_bits"), widths))
    with pytest.raises(ValueError) as caught:
        FloatFormat(**fields, has_infinity=False)
    assert str(caught.value) == (
        f"has_infinity=False leaves {codes} NaN codes a sign; give specials='fn' (no infinity, one "
        f"NaN: {one_nan}), specials='finite' (neither: {none}), or nan_codes"
    )
    for specials, nans, name in (("fn", 1, one_nan), ("finite", 0, none)):
        meant = FloatFormat(**fields, specials=specials)
        assert meant == FloatFormat(name) and meant.nan_codes == nans and not meant.has_infinity
        assert meant == FloatFormat(**fields, has_infinity=False, nan_codes=nans)
    with pytest.raises(ValueError, match="leaves 7 NaN codes"):  # ieee said or not
        FloatFormat(exponent_bits=4, mantissa_bits=3, specials="ieee", has_infinity=False)
    odd = FloatFormat("e4m3noinf")  # all of it spelled: 256, the first code of the last binade
    assert odd.largest == 256 and odd.nan_codes == 7 and FloatFormat(**odd.to_dict()) == odd


@pytest.mark.parametrize(("name", "own", "plain", "told"), [
    ("e3m2fnb3", "e3m2nan1noinf", "e3m2fn", ("a NaN, largest value 24", "no NaN, largest value 28")),
    ("e2m3fnb1", "e2m3nan1noinf", "e2m3fn", ("a NaN, largest value 7", "no NaN, largest value 7.5")),
    ("e2m1fnb1", "e2m1noinf", "e2m1fn", ("a NaN, largest value 4", "no NaN, largest value 6")),
])  # fmt: skip
def test_the_usual_bias_does_not_make_another_format_of_a_near_name(name, own, plain, told):
    """e3m2fnb3 had a NaN and overflow to it, e3m2fn has neither: two formats, and no word said so."""
    sentence = f"'{name}' and '{plain}' would be two formats: write {own} ({told[0]}) or {plain} ({told[1]})"
    for call in (
        lambda: FloatFormat(name),
        lambda: apscope.quantize(1.0, name),
        lambda: apscope.schemes.Scheme(f"none:{name}"),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert sentence in str(caught.value)
    for written, largest in zip((own, plain), told):
        f = FloatFormat(written)
        assert f"{'a' if f.has_nan else 'no'} NaN, largest value {f.largest:g}" == largest
        assert f.name == written


@pytest.mark.parametrize(
    "name",
    ["e3m2fnb4", "e3m2fn", "e3m2finiteb3", "e4m3fnb7", "e4m3fnb8", "e3m2nan1noinf", "e3m0noinf",
     "e2m1noinf", "e3m2noinf", "e5m2b15", "e8m0fnu", "e3m2fnu", "e4m3fnuzb8", "e2m5fnb1"],
)  # fmt: skip
def test_other_names_are_read_and_printed_as_one_format(name):
    f = FloatFormat(name)
    assert FloatFormat(f.name) == f and FloatFormat(f.name).name == f.name


def test_the_stated_grammar_has_every_word_of_printed_names(capsys):
    """e3m0noinf and e3m2nan1noinf were printed, and their words stated nowhere."""
    words = ["fn", "fnuz", "finite", "u", "b<bias>", "nosub", "sub<exponent>", "zero1", "zero0",
             "nan<codes>", "nannz", "inf", "noinf", "eventies"]  # fmt: skip
    with pytest.raises(SystemExit):
        main(["formats", "--help"])
    root = Path(apscope.__file__).resolve().parents[2]
    for text in (
        capsys.readouterr().out,
        FloatFormat.__doc__,
        (root / "docs" / "definitions.md").read_text(),
    ):
        grammar = "".join(text.rpartition("e<E>m<M>")[2].splitlines(keepends=True)[:2])
        stated = re.findall(r"[a-z]+[01]?(?:<\w+>)?", grammar)
        assert set(words) <= set(stated), set(words) - set(stated)
    for form in ("e4m3nosub", "e4m3b5sub-5", "e3m2fnzero1", "e3m2unosubzero0", "e4m3zero1nannz", "e4m3nan3noinf",
                 "e4m3fnnan2inf", "e5m0eventies"):  # fmt: skip
        f = FloatFormat(form)
        assert FloatFormat(f.name) == f
