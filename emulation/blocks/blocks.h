// Block formats applied to arrays: quantize_blocks (values of a block format), encode_blocks (codes
// of the elements and of the scales) and decode_blocks. Blocks use the loops of block_kernels.h if
// supported, and otherwise the one rule of core/rounding.h on fp64 numbers x / 2^k, which are
// exact: with the same bits. docs/definitions.md, section 11, defines the result. In short: amax is
// taken over the block's finite elements; a block of zeros has the smallest scale; what infinities
// and NaNs do is the format's BlockNonfinite, and the loops leave all blocks with one to the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/block_format.h"
#include "core/philox.h"
#include "core/projection.h"

namespace apscope::detail {

// An array of shape (outer, length, inner) in C order; blocks run along `length`. The scales have
// the shape (outer, blocks, inner).
struct BlockShape {
    std::size_t outer = 1, length = 0, inner = 1;

    std::size_t size() const { return outer * length * inner; }
    std::size_t blocks(const BlockFormat& f) const {
        const auto size = static_cast<std::size_t>(f.block_size);
        return length / size + (length % size != 0);
    }
    std::size_t scales(const BlockFormat& f) const { return outer * blocks(f) * inner; }
};

// `out` is `in` or does not overlap it. Stochastic rounding draws element i's word (C order) of the
// stream keyed by `seed`; threads = 0 uses all of the machine's and changes no bit.
void quantize_blocks(std::span<const float> in, std::span<float> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection,
                     std::uint64_t seed = 0, int threads = 1);
// fp64 values rounded once. Formats whose scale is a ratio compute it in fp32 and refuse fp64.
void quantize_blocks(std::span<const double> in, std::span<double> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection,
                     std::uint64_t seed = 0, int threads = 1);

// The tensor scale is returned, 1 for formats without one. decode_blocks returns, bit for bit, the
// result of quantize_blocks for the same array.
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed = 0, int threads = 1);
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed = 0, int threads = 1);

// Further options of an encoder. All except `stream` are for rule ratio.
struct BlockSettings {
    RandomStream stream;        // of the words; element i draws word first_element + i
    std::optional<float> amax;  // instead of the array's own: agreed with others
    // The largest block scale the tensor scale aims at; 0: the scale format's largest.
    float scale_range = 0;
    float stretch = 1;  // factor on the block's scale before it is rounded
    // fl32(fl32(amax / largest) * S_enc), not fl32(amax * fl32(S_enc / largest)).
    bool divides_first = false;
    std::uint64_t first_element = 0;  // of an array that is a piece of a longer one
};
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads = 1);
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads = 1);

// Any codes are read, also those that no encoder writes; a code wider than the format is refused.
void decode_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                   float tensor_scale, std::span<float> out, BlockShape shape,
                   const BlockFormat& format, int threads = 1);

// Only by the rule, block by block and element by element, for checking the functions above.
void quantize_blocks_by_rule(std::span<const float> in, std::span<float> out, BlockShape shape,
                             const BlockFormat& format, const Projection& projection,
                             std::uint64_t seed = 0);
void quantize_blocks_by_rule(std::span<const double> in, std::span<double> out, BlockShape shape,
                             const BlockFormat& format, const Projection& projection,
                             std::uint64_t seed = 0);
float encode_blocks_by_rule(std::span<const float> in, std::span<std::uint8_t> codes,
                            std::span<std::uint8_t> scales, BlockShape shape,
                            const BlockFormat& format, const Projection& projection,
                            const BlockSettings& settings);
float encode_blocks_by_rule(std::span<const double> in, std::span<std::uint8_t> codes,
                            std::span<std::uint8_t> scales, BlockShape shape,
                            const BlockFormat& format, const Projection& projection,
                            const BlockSettings& settings);
void decode_blocks_by_rule(std::span<const std::uint8_t> codes,
                           std::span<const std::uint8_t> scales, float tensor_scale,
                           std::span<float> out, BlockShape shape, const BlockFormat& format);
// Whether the loops support most blocks of a format, or the rule is used for all.
bool blocks_have_loops(const BlockFormat& format, const Projection& projection);

}  // namespace apscope::detail
