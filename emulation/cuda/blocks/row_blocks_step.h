// Blocks of a power of two elements along a contiguous axis, on a GPU: the lanes of a group hold a
// block in registers, eight neighbouring elements each.
//
//      block_size = 32   lane 0     1      2      3          one load of 32 bytes a lane
//                        0 .. 7  8 .. 15  ..  24 .. 31       amax by shuffles
//
// Elements are multiplied by 2^-k (rule ratio: by the scale's inverse), rounded as a cast to the
// element format rounds (group_rounding.h) and multiplied by the scale, all in fp32:
//
//      x 2^-k         exact, unless it is below 2^-126. Then it is less than 2^-66 quanta of every
//                     element format that row_blocks_serve() accepts, and only the fact that it is
//                     not zero can matter
//      element 2^k    rounded once, by the hardware, if it is below 2^-126
//
// So the results have the same bits as those of block_step.h, which serves all other blocks.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "emulation/blocks/block_kernels.h"
#include "emulation/cast/code_kernels.h"
#include "emulation/cuda/blocks/block_scale.h"
#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

// Rows of `length` elements in blocks of 2^block_bits.
struct RowGrid {
    std::uint64_t rows, length, blocks;  // blocks: of one row
    int block_bits;

    // A thread's elements: row[at], row[at + 1], ..., of which those below `length` exist.
    struct Place {
        std::uint64_t row, at, block;  // row: the index of its first element; block: of all rows
    };
    // The place of thread i of 2^thread_bits elements each.
    APSCOPE_HD Place place(std::uint64_t i, int thread_bits) const {
        const std::uint64_t block = i >> (block_bits - thread_bits);
        if (rows == 1) return {0, i << thread_bits, block};
        const std::uint64_t row = block / blocks;
        return {row * length, (i << thread_bits) - (row * blocks << block_bits), block};
    }
    APSCOPE_HD std::uint64_t threads(int thread_bits) const {
        return rows * blocks << (block_bits - thread_bits);
    }
    APSCOPE_HD ElementRange range() const { return {length, 0}; }
};

// Elements and codes of an element format.
struct ElementCodes {
    bool twos_complement;
    // The integer n of an element n * unit lies in the low bits of its sum with `lift`, 1.5 * 2^23
    // units.
    float unit, lift;
    std::uint32_t mask, half;  // the bits of a code, and the highest of them
    CodeMap map;               // unless twos_complement
    // A finite magnitude's code, in the place of fp32's exponent and fraction, is the magnitude
    // times `per_factor`, 2^(bias - 127), also below the normal numbers.
    float factor, per_factor;
    int sign_shift;     // from the sign of a code to fp32's
    bool other_values;  // the code of -0 has another value

    // Finite says that the element is neither infinite nor NaN.
    template <bool Finite>
    APSCOPE_HD std::uint32_t code(float element) const {
        if (twos_complement) return bits_cast<std::uint32_t>(element + lift) & mask;
        if (!Finite) return value_code(bits_cast<std::uint32_t>(element), map);
        const std::uint32_t placed = bits_cast<std::uint32_t>(element * per_factor);
        return (placed & ~sign_bit<float>) >> map.shift | (placed >> sign_shift & half);
    }
    template <int Size>
    APSCOPE_HD void decode(const std::uint8_t (&codes)[Size], float (&values)[Size]) const {
        if (twos_complement) {
            for (int j = 0; j < Size; ++j) values[j] = integer_value(codes[j], half, unit);
            return;
        }
        std::uint32_t largest = 0;
        for (const std::uint8_t code : codes) {
            const std::uint32_t magnitude = code & (half - 1);
            largest = largest > magnitude ? largest : magnitude;
        }
        if (largest > map.top_finite || other_values) {
            for (int j = 0; j < Size; ++j) values[j] = code_value(codes[j], map);
        } else {
            for (int j = 0; j < Size; ++j) {
                const std::uint32_t code = codes[j], sign = code & half;
                values[j] =
                    bits_cast<float>((code ^ sign) << map.shift | sign << sign_shift) * factor;
            }
        }
    }
};

// Scales and codes of a scale format.
struct ScaleCodes {
    bool powers;  // the code of 2^k is k - least, and all codes above `top` are NaN
    int least;
    std::uint32_t top, nan;
    CodeMap map;  // unless `powers`

    APSCOPE_HD std::uint32_t code(const BlockScale& scale) const {
        if (!powers) return value_code(bits_cast<std::uint32_t>(scale.value), map);
        return scale.value != scale.value ? nan
                                          : static_cast<std::uint32_t>(scale.exponent - least);
    }
    APSCOPE_HD float value(std::uint32_t code) const {
        if (!powers) return code_value(code, map);
        return code > top ? bits_cast<float>(nan_bits<float>)
                          : float_power_of_two(static_cast<int>(code) + least);
    }
};

// Rounds elements deterministically by one addition and one subtraction, if numbers beyond the
// largest become the largest: they are limited before the rounding, which no longer has to see
// them. A NaN gives any element; EncodeRowsStep replaces it.
struct LimitedAddition {
    AdditionCast<float> cast;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t) const {
        const float largest = bits_cast<float>(cast.cast.largest);
        for (float& value : values) value = fminf(fmaxf(value, -largest), largest);
        dispatch(cast.cast.rounding, [&]<RoundingMode M>() {
            if constexpr (!is_stochastic(M)) {
                for (float& value : values)
                    value = bits_cast<float>(rounded_by_addition<M, false>(value, cast));
            }
        });
    }
};

// store_group() for numbers below 256, as bytes; compilers pack them with fewer instructions here.
APSCOPE_HD void store_bytes(std::uint8_t* array, const ElementRange& range, std::uint64_t offset,
                            const std::uint32_t (&numbers)[8]) {
    if (range.is_whole<8>(offset) &&
        is_aligned<std::uint64_t, 1>(reinterpret_cast<std::uint64_t*>(array + offset))) {
        Packed<std::uint32_t, 2> packed{};
        for (int j = 3; j >= 0; --j) {
            packed.at[0] = packed.at[0] * 256 + numbers[j];
            packed.at[1] = packed.at[1] * 256 + numbers[j + 4];
        }
        store_packed(reinterpret_cast<std::uint32_t*>(array + offset), packed);
    } else {
        for (int j = 0; j < 8; ++j) {
            if (offset + j < range.count) array[offset + j] = static_cast<std::uint8_t>(numbers[j]);
        }
    }
}

// Quantizes to `out` and encodes to `codes` and `scales`; null arrays are not written. `out` may be
// `in`.
template <class Rounding, int Width>
struct EncodeRowsStep {
    static constexpr int width = Width, size = 8, thread_bits = 3;
    const float* in;
    float* out;
    std::uint8_t *codes, *scales;
    RowGrid grid;
    BlockScaling scaling;
    Rounding rounding;
    std::uint64_t first_word;  // the index of element 0's random word, a multiple of 8
    bool nan_is_largest;       // a NaN becomes the largest element
    bool tells_tiny;           // the mode does not round every tiny number to zero
    ElementCodes element_codes;
    ScaleCodes scale_codes;
    const std::uint32_t* amax_bits;  // see EncodeBlocksStep

    struct Lane {
        float values[size];
        std::uint32_t largest;  // magnitude; as bits, infinities and NaNs are above all numbers
    };
    struct Amax {
        std::uint32_t bits;  // see counted_magnitude()
    };

    APSCOPE_HD std::uint64_t count() const { return grid.threads(thread_bits); }

    APSCOPE_HD Lane begin(std::uint64_t i) const {
        const RowGrid::Place place = grid.place(i, thread_bits);
        Lane lane{};
        load_group(in + place.row, grid.range(), place.at, lane.values);
        for (const float x : lane.values) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(x) & ~sign_bit<float>;
            lane.largest = lane.largest > magnitude ? lane.largest : magnitude;
        }
        return lane;
    }
    APSCOPE_HD Amax share(const Lane& lane) const {
        if (lane.largest < infinity_bits<float>) return {lane.largest};
        Amax amax{0};
        for (const float x : lane.values) {
            amax = combine(
                amax, {counted_magnitude(scaling, bits_cast<std::uint32_t>(x) & ~sign_bit<float>)});
        }
        return amax;
    }
    APSCOPE_HD Amax combine(const Amax& a, const Amax& b) const { return a.bits > b.bits ? a : b; }
    APSCOPE_HD void finish(std::uint64_t i, const Lane& lane, const Amax& all) const {
        const RowGrid::Place place = grid.place(i, thread_bits);
        const TensorScale tensor = tensor_scale(scaling, amax_bits);
        const BlockScale scale = block_scale(scaling, tensor, all.bits);
        float values[size];
        scale_elements(lane, scale, values);
        rounding(values, first_word + (place.row + place.at) / size * size);
        // A factor of 0 or NaN makes NaNs of numbers, which limits would turn into numbers.
        const bool no_factor = scaling.rule == ScaleRule::ratio && !(scale.multiply > 0.0f);
        const bool has_nan = lane.largest > infinity_bits<float> || no_factor;
        if (has_nan) {
            const float nan = bits_cast<float>(nan_bits<float>);
            const float of_nan = nan_is_largest ? scaling.largest : nan;
            for (int j = 0; j < size; ++j) {
                const float x = lane.values[j], product = no_factor ? x * scale.multiply : 0.0f;
                values[j] = x != x ? of_nan : product != product ? nan : values[j];
            }
        }
        if (codes != nullptr) {
            // If the scale is NaN, every element code decodes to NaN, so code 0 is written.
            std::uint32_t found[size] = {};
            if (scale.value == scale.value) {
                if (std::is_same_v<Rounding, LimitedAddition> && !has_nan) {
                    for (int j = 0; j < size; ++j)
                        found[j] = element_codes.template code<true>(values[j]);
                } else {
                    for (int j = 0; j < size; ++j)
                        found[j] = element_codes.template code<false>(values[j]);
                }
            }
            store_bytes(codes + place.row, grid.range(), place.at, found);
            if (i % width == 0)
                scales[place.block] = static_cast<std::uint8_t>(scale_codes.code(scale));
        }
        if (out != nullptr) {
            if (scaling.tensor_scale) {
                for (float& x : values) x = block_value<true>(x, scale.value, tensor.value);
            } else {
                for (float& x : values) x = block_value<false>(x, scale.value, 1.0f);
            }
            store_group(out + place.row, grid.range(), place.at, values);
        }
    }

private:
    // The elements in units of the block's scale, before their rounding.
    APSCOPE_HD void scale_elements(const Lane& lane, const BlockScale& scale,
                                   float (&values)[size]) const {
        const float factor =
            scaling.rule == ScaleRule::ratio ? scale.multiply : float_power_of_two(-scale.exponent);
        for (int j = 0; j < size; ++j) values[j] = lane.values[j] * factor;
        if (tells_tiny) {
            constexpr std::uint32_t smallest_normal = 1u << 23;
            for (int j = 0; j < size; ++j) {
                const std::uint32_t bits = bits_cast<std::uint32_t>(values[j]);
                const bool tiny =
                    (bits & ~sign_bit<float>) < smallest_normal && lane.values[j] != 0.0f;
                values[j] =
                    tiny ? bits_cast<float>(smallest_normal | (bits & sign_bit<float>)) : values[j];
            }
        }
    }
};

// Decodes codes, four elements per thread; blocks may have any power of two of elements from 4 on.
// `wide_element_at` and `wide_scale_at` are as for DecodeBlocksStep.
struct DecodeRowsStep {
    static constexpr int size = 4, thread_bits = 2;
    const std::uint8_t *codes, *scales;
    float* out;
    RowGrid grid;
    int element_bits, scale_bits;
    bool has_tensor_scale;
    float tensor;
    ElementCodes element_codes;
    ScaleCodes scale_codes;
    unsigned long long *wide_element_at, *wide_scale_at;

    APSCOPE_HD std::uint64_t count() const { return grid.threads(thread_bits); }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const RowGrid::Place place = grid.place(i, thread_bits);
        std::uint8_t found[size];
        load_group(codes + place.row, grid.range(), place.at, found);
        if ((found[0] | found[1] | found[2] | found[3]) >> element_bits != 0) {
            for (int j = 0; j < size; ++j) {
                if (found[j] >> element_bits != 0)
                    note_first(wide_element_at, place.row + place.at + j);
            }
        }
        const std::uint32_t code = scales[place.block];
        if (code >> scale_bits != 0) note_first(wide_scale_at, place.block);
        const float scale = scale_codes.value(code);
        float values[size];
        element_codes.decode(found, values);
        if (has_tensor_scale) {
            for (float& x : values) x = block_value<true>(x, scale, tensor);
        } else {
            for (float& x : values) x = block_value<false>(x, scale, 1.0f);
        }
        store_group(out + place.row, grid.range(), place.at, values);
    }
};

}  // namespace apscope::detail
