// The work of an exchange in blocks as a task for a device (row_device.h): block formats, and float
// grids with a scale for each unit of elements, in the topologies or in two phases.
#pragma once

#include <span>

#include "analysis/replay/block_source.h"
#include "analysis/replay/item_context.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// True if a device can compute the rows of this scheme.
bool encodes_on_device(const SchemeParts& scheme, const ItemContext& item);

// Only for a scheme for which encodes_on_device() is true. statistics: of every worker's row;
// reduced: the facts of the reduced rows.
RowTask exchange_task(const SchemeParts& scheme, const ItemContext& item,
                      std::span<const AgreedStatistics> statistics,
                      std::span<const RowFacts> reduced);

// The bits of a worker's message.
struct MessageBits {
    std::uint64_t payload, side, of_tensor;  // of_tensor: see ScaleBits
};
MessageBits message_bits(const SchemeParts& scheme, std::size_t elements);

}  // namespace apscope::detail
