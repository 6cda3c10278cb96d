// Refuses options of a replay that do not fit the trace or another option.
#pragma once

#include "analysis/replay/replay.h"

namespace apscope::detail {

// Throws std::invalid_argument.
void check_options(const Trace& trace, const ReplayOptions& options);

}  // namespace apscope::detail
