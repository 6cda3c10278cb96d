// Descriptions of an encode() (scheme_parts.h) that rounds blocks of a tensor and does nothing
// else, so that a device can do the same. Blocks are counted from the tensor's start.
//
//      BlockEncoding    to a block format; every worker has its own scales
//      UnitEncoding     to the grid of the float encoder, under a power of two for each unit of
//                       consecutive elements, which follows from the unit's amax
//      UniformGrid      at random to uniform levels relative to the norm of a bucket
//                       (codecs/uniform_grid.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/block_format.h"
#include "core/projection.h"

namespace apscope::detail {

struct BlockEncoding {
    BlockFormat format;
    Projection projection;
    // The tensor scale follows from the amax of all workers' rows; false: of the message's row.
    bool agrees = false;
    // Groups of elements are rotated before they are rounded, and the results back (rotation.h).
    bool rotates = false;
};

struct UnitEncoding {
    std::size_t unit;  // number of elements
    // The exponent of the scale, from the largest finite magnitude of a unit over all workers. For
    // twice the magnitude it is less by 1, down to the magnitude 2^-126, below which it does not
    // change; it is any number for 0.
    std::function<int(double amax, int workers)> shift;
};

// Bits of a message besides its payload.
struct ScaleBits {
    std::uint64_t all,  // the scales
        of_tensor;      // the part of these that is independent of the tensor's length
};
inline ScaleBits scale_bits_of(const BlockFormat& format, std::uint64_t scales,
                               bool with_tensor_scale = true) {
    const std::uint64_t of_tensor = format.tensor_scale && with_tensor_scale ? 32 : 0;
    return {scales * static_cast<std::uint64_t>(format.scale.storage_bits()) + of_tensor,
            of_tensor};
}
inline std::uint64_t payload_bits(const BlockFormat& format, std::uint64_t elements) {
    return elements * static_cast<std::uint64_t>(format.element.storage_bits());
}

}  // namespace apscope::detail
