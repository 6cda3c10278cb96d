// FloatBlocks' work as a device's task.
#include <algorithm>
#include <utility>

#include "analysis/replay/float_blocks.h"

namespace apscope::detail {

bool FloatBlocks::serves_device() const {
    return encoder_.grid.format.fits_fp32() && !decision_.skipped &&
           !exchange_.wire().divisors().any() &&
           std::ranges::all_of(topologies_, &Topology::is_plain);
}

RowTask FloatBlocks::task() const {
    RowTask task;
    task.wire = sender_.scale();
    task.projection = encoder_.grid.projection;
    task.inverse = decision_.exponent ? exchange_.wire().decode(1.0) : 0.0;
    task.narrow = exchange_.wire().grid();
    if (const auto& sums = exchange_.sums(); sums && (sums->in_hardware || sums->step))
        task.step = sums->step.value_or(StepCast<float>{});
    task.accumulator = exchange_.accumulator();
    task.wire_draws = draws_;
    task.wants_moments = draws_ || hops_draw_;
    bool samples = false;
    for (std::size_t r = 0; r < topologies_.size(); ++r) {
        const RowSums& row = account_.reduced()[r];
        task.reduced.push_back(
            {topologies_[r], row.exact, row.adds_moments, row.moments == Moments::none});
        samples = samples || !row.samples.empty();
    }
    const int draws = samples ? item_.draws : 1;
    for (int d = 0; d < draws; ++d) task.keys.push_back(item_.key(static_cast<std::size_t>(d)));
    return task;
}

}  // namespace apscope::detail
