// The result rows of a scheme for one item, from its exchange (emulation/schemes/exchange_run.h),
// which runs piece by piece.
#pragma once

#include <string>
#include <vector>

#include "analysis/replay/float_sender.h"
#include "analysis/replay/item_context.h"
#include "analysis/statistics/notes.h"
#include "analysis/statistics/result_row.h"
#include "analysis/trace/trace.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// Advances `state` by one step. item.key(d) is the key of draw d; step.key must be item.key(0).
std::vector<ResultRow> tensor_rows(const SchemeParts& scheme, const TrainingStep& step,
                                   State& state, const ItemContext& item, BlockBuffers& buffers);

// The inputs of a scheme that the trace lacks at a step; empty if the trace has all of them.
std::string missing_at(const SchemeParts& scheme, const Trace& trace, std::size_t step);

// The rows of tensor_rows() without numbers: only names, counts of elements, and a note that names
// the missing inputs.
std::vector<ResultRow> unmeasurable_rows(const SchemeParts& scheme, const std::string& missing,
                                         const ItemContext& item);

}  // namespace apscope::detail
