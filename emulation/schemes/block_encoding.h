// BlockEncoding describes an encode() (scheme_parts.h) that rounds a tensor to a block format and
// does nothing else, so that a device can do the same. Blocks are counted from the tensor's start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/block_format.h"
#include "core/projection.h"

namespace apscope::detail {

struct BlockEncoding {
    BlockFormat format;
    Projection projection;
    // The tensor scale follows from the amax of all workers' rows; false: of the message's row.
    bool agrees = false;
};

// The encodings of a reduction in two phases that adds the messages in fp32 (two_phase.h).
struct BlockPhases {
    BlockEncoding phase1;
    std::optional<BlockEncoding> phase2;  // absent: the sums are not encoded
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
