// The result rows of one item, a (step, tensor) pair: in one pass over the gradients for all
// schemes that scale and round, and in one for each of their reductions in two phases; on a device
// in one for all of them and for schemes in blocks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/exchange_blocks.h"
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

// A scheme whose rows do not depend on other tensors and steps, at the item's step: a reduction in
// two phases for which supports_phases() is true, or a scheme for which encodes_on_device() is, if
// the item is for the device.
struct Alone {
    const SchemeParts* scheme;
    TrainingStep step;
    std::span<const Topology> topologies = {};  // those that add the scheme's codes
    bool for_last = false;                      // as in Streamed, for the scheme's own row
};

// True if the device computes the schemes of this item that it supports; `device` may be null.
bool is_for_device(const ItemContext& item, const RowDevice* device);

// Works block by block, or on the device for the schemes that it supports. The rows are in the
// order of the schemes, the streaming ones first. Streaming schemes that send and add the same
// codes are computed once.
std::vector<std::vector<ResultRow>> streamed_rows(std::span<const Streamed> schemes,
                                                  std::span<const Alone> alone,
                                                  const ItemContext& item, BlockBuffers& buffers,
                                                  RowDevice* device = nullptr);

}  // namespace apscope::detail
