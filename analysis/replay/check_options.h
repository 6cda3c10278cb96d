// The options of a replay that its trace, or another option, does not allow.
#pragma once

#include "analysis/replay/replay.h"

namespace apscope::detail {

// Throws std::invalid_argument.
void check_options(const Trace& trace, const ReplayOptions& options);

}  // namespace apscope::detail
