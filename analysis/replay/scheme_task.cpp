// SchemeRun's work as a device's task, and its totals from there.
#include <algorithm>
#include <utility>

#include "analysis/replay/scheme_run.h"

namespace apscope::detail {

bool SchemeRun::serves_device() const {
    return scheme_.grid.format.fits_fp32() && !decision_.skipped;
}

RowTask SchemeRun::task() const {
    RowTask task;
    task.wire = scale_;
    task.projection = scheme_.grid.projection;
    task.inverse = decision_.exponent ? exchange_.decode(1.0) : 0.0;
    task.narrow = exchange_.grid();
    if (const auto& sums = exchange_.sums(); sums && (sums->in_hardware || sums->step))
        task.step = sums->step.value_or(StepCast<float>{});
    task.accumulator = exchange_.accumulator();
    task.wire_draws = stochastic_;
    task.wants_moments = stochastic_ || hops_draw_;
    bool samples = false;
    for (const Reduced& r : reduced_) {
        task.reduced.push_back(
            {r.topology, r.exact, r.sums.moments == Moments::closed_form, r.sampled});
        samples = samples || !r.sums.samples.empty();
    }
    const int draws = samples ? item_.draws : 1;
    for (int d = 0; d < draws; ++d) task.keys.push_back(key(static_cast<std::size_t>(d)));
    return task;
}

void SchemeRun::take(RowTotals totals) {
    wire_ = std::move(totals.wire);
    wire_moments_defined_ = totals.wire_moments_defined;
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        RowTotals::Reduced& from = totals.reduced[r];
        RowSums& sums = reduced_[r].sums;
        sums.statistics = from.statistics;
        if (sums.moments == Moments::closed_form)
            sums.statistics.moments_defined =
                from.statistics.moments_defined && wire_moments_defined_;
        sums.samples.draw_error = std::move(from.draw_error);
        sums.samples.left_out = std::move(from.left_out);
        sums.samples.variance_sum = from.variance_sum;
    }
}

}  // namespace apscope::detail
