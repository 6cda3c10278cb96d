// The rows of one item, a (step, tensor) pair, of all schemes that scale and round, at once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/float_blocks.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {

// The buffers of a thread, used item after item.
struct Workspace {
    BufferPool buffers;
    std::optional<BlockBuffers> blocks;

    BlockBuffers& blocks_of(int workers);
};

// One of the schemes that stream, and what it chose.
struct Streamed {
    const SchemeParts* scheme;
    const Decision* decision;
    std::span<const Topology> topologies;
    // The choice is for the last of these alone, or for `exact` if there are none: the rows are
    // then that topology's, the wire's among them.
    bool for_last = false;

    const FloatEncoder& encoder() const { return scheme->encoding.float_encoder.value(); }
};

// Block by block, or on a device what that can do; rows in the order of the schemes. Those that
// send and add the same codes are worked out once.
std::vector<std::vector<ResultRow>> streamed_rows(std::span<const Streamed> schemes,
                                                  const ItemContext& item, BlockBuffers& buffers,
                                                  RowDevice* device = nullptr);

}  // namespace apscope::detail
