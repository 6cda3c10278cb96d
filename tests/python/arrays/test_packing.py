"""Codes of 1 to 8 bits without gaps: known bytes, and one little-endian number per line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apscope

torch = pytest.importorskip("torch")


@given(
    st.integers(1, 8).flatmap(
        lambda bits: st.tuples(st.just(bits), st.lists(st.integers(0, 2**bits - 1), max_size=40))
    )
)
@settings(max_examples=200, deadline=None)
def test_pack_is_one_little_endian_number(bits_and_codes):
    bits, codes = bits_and_codes
    packed = apscope.pack(np.array(codes, np.uint8), bits)
    assert int.from_bytes(packed.tobytes(), "little") == sum(
        c << i * bits for i, c in enumerate(codes)
    )
    assert len(packed) == -(-len(codes) * bits // 8)
    assert apscope.unpack(packed, bits, len(codes)).tolist() == codes


def test_packing_of_known_bytes():
    assert apscope.pack([1, 0, 1, 1, 0, 0, 0, 0, 1], 1).tolist() == [0b00001101, 1]
    assert apscope.pack([1, 2, 3], 4).tolist() == [0x21, 0x03]
    assert apscope.pack([0x3F, 0, 0x3F, 0], 6).tolist() == [0x3F, 0xF0, 0x03]
    assert apscope.pack([7, 0, 0, 7], 3).tolist() == [0x07, 0x0E]
    assert apscope.pack([255, 1], 8).tolist() == [255, 1]


def test_each_line_starts_at_a_byte():
    codes = np.random.default_rng(0).integers(0, 8, (4, 2, 5), dtype=np.uint8)
    packed = apscope.pack(codes, 3)
    assert packed.shape == (4, 2, 2)
    np.testing.assert_array_equal(packed[2, 1], apscope.pack(codes[2, 1], 3))
    np.testing.assert_array_equal(apscope.unpack(packed, 3, 5), codes)
    assert apscope.pack(np.empty((3, 0), np.uint8), 5).shape == (3, 0)
    assert apscope.unpack(np.empty((0, 5), np.uint8), 4, 9).shape == (0, 9)


def test_four_bits_are_packed_as_torch_packs_float4_e2m1fn_x2():
    codes = torch.arange(32, dtype=torch.uint8).reshape(2, 16) % 16
    expected = codes[:, ::2] | codes[:, 1::2] << 4
    packed = apscope.pack(codes, 4)
    assert torch.equal(packed, expected)
    assert torch.equal(apscope.unpack(packed.view(torch.float4_e2m1fn_x2), 4, 16), codes)
    x = torch.randn(2, 64)
    assert apscope.pack(apscope.encode_blocks(x, "mxfp4").codes, 4).view(
        torch.float4_e2m1fn_x2
    ).shape == (2, 32)


def test_wrong_packing_is_refused_in_a_sentence():
    for call, says in [
        (lambda: apscope.pack([1, 4], 2), "code 4 at element 1 has more than 2 bits"),
        (lambda: apscope.pack([1], 9), "bits=9 is not between 1 and 8"),
        (lambda: apscope.pack([1], 0), "bits=0 is not between 1 and 8"),
        (lambda: apscope.pack([256], 8), "256"),
        (lambda: apscope.pack([-1], 8), "-1"),
        (lambda: apscope.pack(np.uint8(1), 8), "no axis"),
        (lambda: apscope.unpack(np.uint8([1, 2]), 4, 5), "take 3"),
        (lambda: apscope.unpack(np.uint8([]), 4, -1), "count=-1"),
    ]:
        with pytest.raises(ValueError, match=says) as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match="float64"):
        apscope.pack([1.5], 4)
    for call, says in [
        (lambda: apscope.pack([1], "e2m1fn"), "^bits='e2m1fn' must be an integer$"),
        (lambda: apscope.unpack(np.uint8([1]), "e2m1fn", 2), "^bits='e2m1fn' must be an integer$"),
        (lambda: apscope.unpack(np.uint8([1]), 4, "2"), "^count='2' must be an integer$"),
        (
            lambda: apscope.quantize_blocks([1.0], "mxfp4", axis="x"),
            "^axis='x' must be an integer$",
        ),
    ]:
        with pytest.raises(TypeError, match=says):
            call()
