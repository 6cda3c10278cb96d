// The result rows of a two-phase reduction on float grids (emulation/schemes/float_phases.h) for
// one item, block by block.
#pragma once

#include <vector>

#include "analysis/replay/float_sender.h"
#include "emulation/schemes/float_phases.h"

namespace apscope::detail {

// True if the scheme is such a reduction and all its columns can be computed without further draws.
bool supports_phases(const SchemeParts& scheme, const ItemContext& item);
// The rows that tensor_rows() returns for a scheme and item for which supports_phases() is true.
std::vector<ResultRow> phase_rows(const SchemeParts& scheme, const TrainingStep& step,
                                  const ItemContext& item, BlockBuffers& buffers);

}  // namespace apscope::detail
