// The result rows of one item, a (step, tensor) pair: in one pass over the gradients for all
// schemes that scale and round, and in one for each of their reductions in two phases.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/float_blocks.h"
#include "analysis/replay/phase_blocks.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {

// The buffers of a thread, used item after item.
struct Workspace {
    BufferPool buffers;
    std::optional<BlockBuffers> blocks;

    BlockBuffers& blocks_of(int workers);
};

// A scheme that streams, and its decision for the item.
struct Streamed {
    const SchemeParts* scheme;
    const Decision* decision;
    std::span<const Topology> topologies;
    // True if the decision is only for the last of `topologies`, or for `exact` if `topologies` is
    // empty; only the row of this topology and the wire row are then computed.
    bool for_last = false;

    const FloatEncoder& encoder() const { return scheme->encoding.float_encoder.value(); }
};

// A reduction in two phases, at the item's step; only if supports_phases() is true.
struct InPhases {
    const SchemeParts* scheme;
    TrainingStep step;
    bool for_last = false;  // as in Streamed, for the reduction's own row
};

// Works block by block, or on the device for the schemes that it supports. The rows are in the
// order of the schemes, those in phases last. Streaming schemes that send and add the same codes
// are computed once.
std::vector<std::vector<ResultRow>> streamed_rows(std::span<const Streamed> schemes,
                                                  std::span<const InPhases> in_phases,
                                                  const ItemContext& item, BlockBuffers& buffers,
                                                  RowDevice* device = nullptr);

}  // namespace apscope::detail
