#include "analysis/replay/check_options.h"

#include <stdexcept>
#include <string>

#include "analysis/replay/selection.h"

namespace apscope::detail {

void check_options(const Trace& trace, const ReplayOptions& options) {
    const Manifest& manifest = trace.manifest();
    if (options.workers < 1 || options.workers > manifest.workers) {
        throw std::invalid_argument(
            "workers=" + std::to_string(options.workers) + " is not between 1 and the " +
            std::to_string(manifest.workers) + " that trace '" + manifest.name + "' recorded");
    }
    check_shard(static_cast<std::int64_t>(options.shard),
                static_cast<std::int64_t>(options.shards));
    const std::size_t pairs = options.steps.size() * options.tensors.size();
    if (options.statistics && options.statistics->size() != pairs) {
        throw std::invalid_argument("there are statistics of " +
                                    std::to_string(options.statistics->size()) +
                                    " (step, tensor) pairs; give those of all " +
                                    std::to_string(pairs) + " of the selection");
    }
    if (options.persistence && options.device != nullptr) {
        throw std::invalid_argument(
            "a GPU adds up no errors over steps; use the CPU for persistence, or leave it out");
    }
    if (options.draws != 1 && options.draws < 3) {
        throw std::invalid_argument("draws=" + std::to_string(options.draws) +
                                    " gives no standard error; use 1 for none or at least 3");
    }
}

}  // namespace apscope::detail
