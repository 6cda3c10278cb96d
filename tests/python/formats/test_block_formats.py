"""BlockFormat as a value: names, JSON, limits, and what is refused."""

import json
import pickle

import pytest

import apscope
from apscope import BlockFormat
from tests.reference.blocks import BLOCKS


@pytest.mark.parametrize(
    "name",
    [
        *BLOCKS,
        "nvfp4",
        "mxfp4,block=16",
        "mxfp4,rule=even",
        "bfp:4:16,rule=ceil",
        "blocks:int4",
        "blocks:e4m3,block=7,rule=rceil",
        "nvfp4,block=32",
        "blocks:e3m2fn,scale=e4m3fn,block=16,rule=ratio,tensor",
        "blocks:e2m1fn,scale=e5m2,rule=ratio",
    ],
)
def test_names_and_json_round_trip(name):
    f = BlockFormat(name)
    assert f.name == str(f) == name and repr(f) == f"BlockFormat('{name}')"
    assert (
        BlockFormat.from_json(f.to_json()) == f == pickle.loads(pickle.dumps(f))
        and json.loads(f.to_json())["rule"] == f.rule
    )
    assert hash(f) == hash(BlockFormat(name)) and f != BlockFormat("blocks:e5m2,block=3")


def test_the_named_formats_are_the_standards():
    f = apscope.named_block_formats()
    assert list(f) == [
        "mxfp8_e4m3",
        "mxfp8_e5m2",
        "mxfp6_e3m2",
        "mxfp6_e2m3",
        "mxfp4",
        "mxint8",
        "nvfp4",
    ]
    assert [f[n].element.emax for n in f] == [8, 15, 4, 2, 2, 0, 2]
    assert [f[n].element.largest for n in f] == [448, 57344, 28, 7.5, 6, 127 / 64, 6]
    assert [f[n].bits_per_element for n in f] == [8.25, 8.25, 6.25, 6.25, 4.25, 8.25, 4.5]


@pytest.mark.parametrize(
    "name, says",
    [
        ("mxfp9", "unknown block format 'mxfp9'"),
        ("mxfp4,block=0", "block_size=0"),
        ("mxfp4,rule=up", "unknown scale rule 'up'"),
        ("bfp:9:16", "9 bits"),
        ("bfp:1:16", "1 bits"),
        ("bfp:8", "unknown block format"),
        ("blocks:bf16", "at most 8 bits"),
        ("blocks:e8m0fnu", "must be signed"),
        ("mxfp4,tensor", "tensor_scale belongs to"),
        ("mxfp4,scale=e4m3fn", "without mantissa bits"),
        ("nvfp4,scale=e8m0fnu", "a scale format with a zero"),
        ("nvfp4,scale=e3m2fn", "must have a NaN"),
        ("mxfp4,size=3", "'size=3' is not one of"),
        ("mxfp4,", "'' is not one of"),
        ("blocks:int9", "9 bits"),
        ("blocks:fp8", "several meanings"),
    ],
)
def test_wrong_formats_are_refused_in_a_sentence(name, says):
    with pytest.raises(ValueError, match=says) as error:
        BlockFormat(name)
    assert "\n" not in str(error.value)


def test_formats_of_elements_and_scales_may_be_named():
    named = BlockFormat(element="e2m1fn", scale=apscope.FloatFormat("e8m0fnu"), block_size=16)
    assert named == BlockFormat("mxfp4,block=16")
    assert BlockFormat(name="mxfp4") == BlockFormat("mxfp4")


@pytest.mark.parametrize(
    "given, fields, says",
    [
        ((), {"element": "e3m0", "block_size": 16}, "^BlockFormat needs scale, such as"),
        ((), {}, "^BlockFormat needs element and scale, such as"),
        ((), {"element": "e3m0", "scale": 8}, "^format is of type int; give a FloatFormat"),
        ((), {"element": "e3m0", "scale": "e8m0fnu", "block": 16}, "did you mean block_size\\?$"),
        ((), {"element": "e3m0", "scale": "e8m0fnu", "block_size": "x"}, "^block_size='x' must be"),
        ((), {"element": "e3m0", "scale": "e8m0fnu", "rule": 3}, "^rule=3 must be a string"),
        ((), {"element": "e3m0", "scale": "e8m0fnu", "tensor_scale": 2}, "^tensor_scale=2 must be"),
        (("mxfp4",), {"block_size": 16}, "^BlockFormat takes a name alone"),
        (("mxfp4", 16), {}, "^BlockFormat takes a name alone"),
        ((4,), {}, "^name=4 must be a string"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(given, fields, says):
    with pytest.raises(TypeError, match=says) as error:
        BlockFormat(*given, **fields)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, says",
    [
        ("3", "is an object"),
        ("{}", "needs a string as 'element'"),
        ('{"element": "e4m3fn"}', "needs a string as 'scale'"),
        ('{"element": "e4m3fn", "scale": "e8m0fnu", "size": 3}', "no key 'size'"),
        ("{", "Expecting"),
        ('{"element": "e4m3fn", "scale": "e8m0fnu", "block_size": -1}', "block_size=-1"),
    ],
)
def test_wrong_json_is_refused_in_a_sentence(text, says):
    with pytest.raises(ValueError, match=says):
        BlockFormat.from_json(text)
    assert BlockFormat.from_json('{"element": "e4m3fn", "scale": "e8m0fnu"}') == BlockFormat(
        "mxfp8_e4m3"
    )


def test_a_block_formats_name_where_a_float_format_is_asked_for_is_called_that():
    with pytest.raises(
        ValueError,
        match="^'mxfp8_e4m3' is a block format; give a float format such as 'e4m3', or call "
        "quantize_blocks$",
    ):
        apscope.quantize([1.0], "mxfp8_e4m3")
