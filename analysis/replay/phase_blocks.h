// The rows of two phases on float grids (emulation/schemes/float_phases.h) of one item, block by
// block: those that tensor_rows() makes of the composition.
#pragma once

#include <vector>

#include "analysis/replay/float_sender.h"
#include "emulation/schemes/float_phases.h"

namespace apscope::detail {

// Whether all columns come without further draws.
bool serves_phases(const SchemeParts& scheme, const ItemContext& item);
// scheme: of two phases. step: of the item, as in tensor_rows().
std::vector<ResultRow> phase_rows(const SchemeParts& scheme, const TrainingStep& step,
                                  const ItemContext& item, BlockBuffers& buffers);

}  // namespace apscope::detail
