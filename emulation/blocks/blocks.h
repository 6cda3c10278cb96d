// Block formats applied to arrays: quantize_blocks (values of a block format), encode_blocks (codes
// of the elements and of the scales) and decode_blocks. The loops of block_kernels.h round the
// blocks that they support; the rounding rule of core/rounding.h rounds the other blocks, with the
// same bits. docs/definitions.md, section 11, defines the result. In short: amax is the largest
// magnitude of the block's finite elements; a block of zeros has the smallest scale; the format's
// BlockNonfinite defines the effect of infinities and NaNs. The rounding rule rounds all blocks
// that have infinities or NaNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/block_format.h"
#include "core/philox.h"
#include "core/projection.h"
#include "core/sizes.h"

namespace apscope::detail {

// An array of shape (outer, length, inner) in C order; blocks run along `length`. The scales have
// the shape (outer, blocks(format), inner).
struct BlockShape {
    std::size_t outer = 1, length = 0, inner = 1;

    std::size_t size() const { return checked_size({outer, length, inner}); }
    std::size_t blocks(const BlockFormat& f) const {
        const auto size = static_cast<std::size_t>(f.block_size);
        return length / size + (length % size != 0);
    }
    std::size_t scales(const BlockFormat& f) const { return outer * blocks(f) * inner; }
};

// Sets `out` to the values of `format` that `in` is rounded to. `out` is `in` or does not overlap
// it. For element i (C order), stochastic rounding draws word i of the stream with the key `seed`.
// threads = 0 uses all hardware threads; the number of threads never changes a bit.
void quantize_blocks(std::span<const float> in, std::span<float> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection,
                     std::uint64_t seed = 0, int threads = 1);
// Does the same for fp64 values, which are rounded once. Throws std::invalid_argument for formats
// with the scale rule `ratio`, which is defined by fp32 operations.
void quantize_blocks(std::span<const double> in, std::span<double> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection,
                     std::uint64_t seed = 0, int threads = 1);

// Writes the codes of the elements and of the scales, and returns the tensor scale, or 1 for
// formats without one. From these, decode_blocks() computes, bit for bit, the result of
// quantize_blocks() for the same array.
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed = 0, int threads = 1);
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed = 0, int threads = 1);

// Further options of an encoder. All except `stream` and `first_element` apply only to the scale
// rule `ratio`.
struct BlockSettings {
    RandomStream stream;  // stream of the random words; element i draws word first_element + i
    std::optional<float> amax;  // the common amax of several arrays; absent: the amax of this array
    // The tensor scale is chosen so that the largest block scale becomes this value; 0: the largest
    // value of the scale format.
    float scale_range = 0;
    float stretch = 1;  // factor of the block's scale before the scale is rounded
    // True: the ratio is fl32(fl32(amax / largest) * S_enc); false: fl32(amax * fl32(S_enc /
    // largest)).
    bool divides_first = false;
    // The index of element 0 in the longer array of which this array is a piece.
    std::uint64_t first_element = 0;
};
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads = 1);
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads = 1);

// Sets `out` to the values of codes, also of codes that encode_blocks() never writes. Throws
// std::invalid_argument for a code that is wider than its format.
void decode_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                   float tensor_scale, std::span<float> out, BlockShape shape,
                   const BlockFormat& format, int threads = 1);

// The functions *_by_rule apply the rounding rule element by element, as a reference for the
// functions above.
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
// Returns whether the loops of block_kernels.h support most blocks of the format; if not, the
// rounding rule rounds all blocks.
bool blocks_have_loops(const BlockFormat& format, const Projection& projection);

}  // namespace apscope::detail
