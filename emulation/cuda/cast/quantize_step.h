// The steps of quantize, encode and decode: the work of one GPU thread on a group of elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/codec.h"
#include "emulation/cast/code_kernels.h"
#include "emulation/cuda/cast/element_group.h"
#include "emulation/cuda/cast/group_rounding.h"

namespace apscope::detail {

// Sets out[i] = round(in[i]), Size elements per thread; `in` and `out` are the same array or do not
// overlap.
template <class Rounding, int Size>
struct QuantizeStep {
    using Real = typename Rounding::Number;
    const Real* in;
    Real* out;
    ElementRange range;
    Rounding rounding;

    APSCOPE_HD std::uint64_t count() const { return range.groups<Size>(); }
    APSCOPE_HD void operator()(std::uint64_t group) const {
        const std::uint64_t offset = range.offset<Size>(group);
        Real values[Size];
        load_group(in, range, offset, values);
        rounding(values, range.first + offset);
        store_group(out, range, offset, values);
    }
};

// Writes a group of codes, each in `bytes` bytes.
template <class Bits, int Size>
APSCOPE_HD void store_codes(void* out, int bytes, const ElementRange& range, std::uint64_t offset,
                            const Bits (&codes)[Size]) {
    const auto as = [&](auto* array) {
        using Code = std::remove_pointer_t<decltype(array)>;
        Code narrow[Size];
        for (int j = 0; j < Size; ++j) narrow[j] = static_cast<Code>(codes[j]);
        store_group(array, range, offset, narrow);
    };
    if (bytes == 1) as(static_cast<std::uint8_t*>(out));
    else if (bytes == 2) as(static_cast<std::uint16_t*>(out));
    else if (bytes == 4) as(static_cast<std::uint32_t*>(out));
    else as(static_cast<std::uint64_t*>(out));
}

// The two ways from a value of a format to its code: by the codec, for every format, and by the map
// of emulation/cast/code_kernels.h, a few operations on 32 bits without a branch.
template <class Real>
struct CodecEncoder {
    BasicCodec<Real> codec;
    APSCOPE_HD BitsOf<Real> operator()(Real value) const { return encode_one<Real>(value, codec); }
};
struct MapEncoder {
    CodeMap map;
    APSCOPE_HD std::uint32_t operator()(float value) const {
        return value_code(bits_cast<std::uint32_t>(value), map);
    }
};

// Sets `out` to the codes of the rounded numbers, of `bytes` bytes each. `nan_at`, unless null,
// receives the index of the first NaN.
template <class Rounding, class Encoder, int Size>
struct EncodeStep {
    using Real = typename Rounding::Number;
    const Real* in;
    void* out;
    int bytes;
    ElementRange range;
    Rounding rounding;
    Encoder encoder;
    unsigned long long* nan_at;

    APSCOPE_HD std::uint64_t count() const { return range.groups<Size>(); }
    APSCOPE_HD void operator()(std::uint64_t group) const {
        const std::uint64_t offset = range.offset<Size>(group);
        Real values[Size];
        load_group(in, range, offset, values);
        if (nan_at != nullptr) {
            for (int j = 0; j < Size; ++j) {
                if (values[j] != values[j]) note_first(nan_at, offset + j);
            }
        }
        rounding(values, range.first + offset);
        BitsOf<Real> codes[Size];
        for (int j = 0; j < Size; ++j) codes[j] = encoder(values[j]);
        store_codes(out, bytes, range, offset, codes);
    }
};

// The same two ways back.
template <class Real_>
struct CodecDecoder {
    using Real = Real_;
    BasicCodec<Real> codec;
    APSCOPE_HD Real operator()(BitsOf<Real> code) const { return decode_one<Real>(code, codec); }
};
struct MapDecoder {
    using Real = float;
    CodeMap map;
    APSCOPE_HD float operator()(std::uint32_t code) const { return code_value(code, map); }
};

// Sets `out` to the values of codes. `wide_at`, unless null, receives the index of the first code
// of more than `bits` bits.
template <class Code, class Decoder, int Size>
struct DecodeStep {
    using Real = typename Decoder::Real;
    const Code* in;
    Real* out;
    ElementRange range;
    Decoder decoder;
    int bits;
    unsigned long long* wide_at;

    APSCOPE_HD std::uint64_t count() const { return range.groups<Size>(); }
    APSCOPE_HD void operator()(std::uint64_t group) const {
        const std::uint64_t offset = range.offset<Size>(group);
        Code codes[Size];
        load_group(in, range, offset, codes);
        if (wide_at != nullptr) {
            for (int j = 0; j < Size; ++j) {
                if (codes[j] >> bits != 0) note_first(wide_at, offset + j);
            }
        }
        Real values[Size];
        for (int j = 0; j < Size; ++j) values[j] = decoder(static_cast<BitsOf<Real>>(codes[j]));
        store_group(out, range, offset, values);
    }
};

}  // namespace apscope::detail
