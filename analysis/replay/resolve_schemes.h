// The schemes of a replay on its tensors and steps: the branches of policies, and with gradients of
// every worker also the compositions with topologies.
#pragma once

#include <vector>

#include "analysis/replay/replay.h"
#include "emulation/schemes/resolved_schemes.h"

namespace apscope::detail {

std::vector<ResolvedScheme> resolve_schemes(const Manifest& manifest, const ReplayOptions& options);

}  // namespace apscope::detail
