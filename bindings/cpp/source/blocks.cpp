#include "bindings/cpp/apscope/blocks.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/overlap.h"
#include "core/block_format.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/projection.h"
#include "core/sizes.h"
#include "emulation/blocks/blocks.h"

namespace apscope {
namespace {

// The numbers of elements along the axes before the axis of the blocks, along this axis, and along
// the axes after it.
detail::BlockShape around(std::size_t size, std::span<const std::size_t> shape, int axis) {
    if (shape.empty()) shape = std::span<const std::size_t>(&size, 1);
    const int axes = static_cast<int>(shape.size());
    if (axis < -axes || axis >= axes) {
        throw error("axis=" + std::to_string(axis) + " is not an axis of an array of " +
                    std::to_string(axes));
    }
    if (const std::size_t all = detail::checked_size(shape); all != size) {
        throw error("the array has " + std::to_string(size) + " elements, its shape " +
                    std::to_string(all));
    }
    const std::size_t along = static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
    return {detail::checked_size(shape.first(along)), shape[along],
            detail::checked_size(shape.subspan(along + 1))};
}

}  // namespace

BlockQuantizer::BlockQuantizer(const BlockFormat& format, const Projection& projection,
                               std::uint64_t seed, int threads) try
    : format_(format), projection_(projection), seed_(seed), threads_(threads) {
    validate(format);
    validate(projection, format.element);
    if (threads < 0)
        throw error("threads=" + std::to_string(threads) +
                    " is negative; 0 uses all of the machine's");
    // The call for an empty array checks the further requirements of block formats.
    (*this)(std::span<const float>{}, std::span<float>{});
} catch (...) {
    detail::throw_error();
}

void BlockQuantizer::operator()(std::span<const float> in, std::span<float> out,
                                std::span<const std::size_t> shape, int axis) const try {
    refuse_part(in, out);
    const detail::FloatEnvironment environment;
    detail::quantize_blocks(in, out, around(in.size(), shape, axis), format_, projection_, seed_,
                            threads_);
} catch (...) {
    detail::throw_error();
}
void BlockQuantizer::operator()(std::span<const double> in, std::span<double> out,
                                std::span<const std::size_t> shape, int axis) const try {
    refuse_part(in, out);
    const detail::FloatEnvironment environment;
    detail::quantize_blocks(in, out, around(in.size(), shape, axis), format_, projection_, seed_,
                            threads_);
} catch (...) {
    detail::throw_error();
}

BlockCodes BlockQuantizer::encode(std::span<const float> in, std::span<const std::size_t> shape,
                                  int axis) const try {
    const detail::FloatEnvironment environment;
    const detail::BlockShape lines = around(in.size(), shape, axis);
    BlockCodes result;
    result.codes.resize(lines.size());
    result.scales.resize(lines.scales(format_));
    result.tensor_scale = detail::encode_blocks(in, result.codes, result.scales, lines, format_,
                                                projection_, seed_, threads_);
    return result;
} catch (...) {
    detail::throw_error();
}
void BlockQuantizer::decode(const BlockCodes& codes, std::span<float> out,
                            std::span<const std::size_t> shape, int axis) const try {
    const detail::FloatEnvironment environment;
    const detail::BlockShape lines = around(out.size(), shape, axis);
    detail::decode_blocks(codes.codes, codes.scales, codes.tensor_scale, out, lines, format_,
                          threads_);
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
