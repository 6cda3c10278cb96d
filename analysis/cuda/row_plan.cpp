#include "analysis/cuda/row_plan.h"

#include <algorithm>

namespace apscope::detail {

namespace {

// The programs of topologies; each is stored once.
class Programs {
public:
    Programs(int workers, std::vector<HopInstruction>& out) : workers_(workers), out_(out) {}

    struct Written {
        Topology topology;
        ReducedRow row;
        int slots;
    };
    const Written& of(const Topology& topology) {
        const auto known = std::find_if(written_.begin(), written_.end(),
                                        [&](const Written& w) { return w.topology == topology; });
        if (known != written_.end()) return *known;
        const HopProgram program = hop_program(topology, workers_);
        const ReducedRow row{topology.kind == Topology::Kind::gather ? ReducedRow::Kind::gather
                                                                     : ReducedRow::Kind::hops,
                             topology.kind == Topology::Kind::ring,
                             topology.kahan,
                             0,
                             out_.size(),
                             static_cast<std::int32_t>(program.instructions.size()),
                             program.result};
        out_.insert(out_.end(), program.instructions.begin(), program.instructions.end());
        return written_.emplace_back(topology, row, program.slots);
    }

private:
    int workers_;
    std::vector<HopInstruction>& out_;
    std::vector<Written> written_;
};

void add_block(ErrorStatistics& s, const double* quantities, std::uint64_t pitch) {
    using Q = RowQuantities;
    using C = ErrorCounts;
    const auto at = [&](int q) { return quantities[static_cast<std::uint64_t>(q) * pitch]; };
    for (std::size_t k = 0; k < s.sums.size(); ++k) s.sums[k] += at(Q::sums + static_cast<int>(k));
    for (std::size_t k = 0; k < s.split.sums.size(); ++k)
        s.split.sums[k] += at(Q::split + static_cast<int>(k));
    const auto count = [&](C::Count k) {
        return static_cast<std::uint64_t>(at(Q::counts + static_cast<int>(k)));
    };
    s.counted += count(C::counted);
    s.nonzero += count(C::nonzero);
    s.underflow += count(C::underflow);
    s.subnormal += count(C::subnormal);
    s.saturated += count(C::saturated);
    s.overflow += count(C::overflow);
    s.nan += count(C::nan);
    s.infinite += count(C::infinite);
    s.max_ulp = std::max(s.max_ulp, at(Q::max_ulp));
    s.moments_defined = s.moments_defined && at(Q::undefined) == 0.0;
}

}  // namespace

RowPlan::RowPlan(std::span<const RowTask> tasks, int workers, double divisor, bool has_noise)
    : tasks_(tasks), workers_(workers), divisor_(divisor), has_noise_(has_noise) {
    Programs programs(workers, instructions_);
    const std::uint64_t place = sum_lanes;
    for (const RowTask& task : tasks) {
        Task plan{{task.wire, task.inverse, task.narrow.has_value()}, task.wire, rows_.size()};
        plan.scale.units = divisor;
        std::vector<ReducedRow> sampled;
        std::uint64_t slots = 0;
        for (const RowTask::Reduced& reduced : task.reduced) {
            ReducedRow row{};
            if (reduced.exact) {
                row.kind = ReducedRow::Kind::exact;
            } else {
                const Programs::Written& written = programs.of(reduced.topology);
                row = written.row;
                slots = std::max(slots, static_cast<std::uint64_t>(written.slots));
            }
            row.closed_form = reduced.closed_form;
            rows_.push_back(row);
            if (reduced.sampled && task.keys.size() > 1) sampled.push_back(row);
        }
        plan.row_count = task.reduced.size();
        plan.sampled_count = sampled.size();
        plan.draws = sampled.empty() ? 0 : task.keys.size();
        rows_.insert(rows_.end(), sampled.begin(), sampled.end());

        const std::uint64_t quantities = plan.row_quantities(workers),
                            of_draws = plan.draw_quantities();
        plan.first_quantity = result_doubles_;
        result_doubles_ += quantities + of_draws + (has_noise ? plan.noise_quantities() : 0);
        most_rows_ = std::max(most_rows_, plan.row_count);
        lane_doubles_ = std::max({lane_doubles_, quantities * place, of_draws * place});
        slots_ = std::max(slots_, slots * plan.row_count * place);
        draw_doubles_ = std::max(draw_doubles_, plan.draws * plan.sampled_count * sum_block);
        wants_moments_ = wants_moments_ || task.wants_moments;
        plans_.push_back(plan);
    }
}

std::uint64_t RowPlan::bytes() const {
    const std::uint64_t doubles = sum_block + split_doubles() + moment_doubles() + lane_doubles_ +
                                  draw_doubles_ + result_doubles_ + square_doubles() +
                                  error_doubles() + noise_doubles();
    return 2 * row_floats() * sizeof(float) + doubles * sizeof(double) + slots_ * sizeof(HopSlot);
}

std::vector<RowTotals> RowPlan::no_totals(std::uint64_t elements) const {
    std::vector<RowTotals> totals(tasks_.size());
    for (std::size_t t = 0; t < totals.size(); ++t) {
        totals[t].wire.resize(static_cast<std::size_t>(workers_));
        totals[t].reduced.resize(tasks_[t].reduced.size());
        for (ErrorStatistics& s : totals[t].wire) s.count = elements;
        for (std::size_t r = 0; r < totals[t].reduced.size(); ++r) {
            RowTotals::Reduced& reduced = totals[t].reduced[r];
            reduced.statistics.count = elements;
            if (plans_[t].draws == 0 || !tasks_[t].reduced[r].sampled) continue;
            reduced.draw_error.assign(plans_[t].draws, 0.0);
            reduced.left_out.assign(plans_[t].draws, 0.0);
        }
    }
    return totals;
}

void RowPlan::add(const std::vector<double>& results, std::uint64_t blocks,
                  std::vector<RowTotals>& totals) const {
    const auto w = static_cast<std::uint64_t>(workers_);
    for (std::size_t t = 0; t < totals.size(); ++t) {
        const Task& plan = plans_[t];
        const double* rows = results.data() + plan.first_quantity * blocks;
        const std::uint64_t pitch = plan.all_rows(workers_) * blocks;
        const auto add_row = [&](ErrorStatistics& s, std::uint64_t row) {
            for (std::uint64_t b = 0; b < blocks; ++b) add_block(s, rows + row * blocks + b, pitch);
        };
        for (std::uint64_t row = 0; row < w; ++row) {
            add_row(totals[t].wire[row], row);
            totals[t].wire_moments_defined =
                totals[t].wire_moments_defined && totals[t].wire[row].moments_defined;
        }
        const double* drawn = rows + plan.row_quantities(workers_) * blocks;
        const std::uint64_t drawn_pitch = plan.sampled_count * blocks;
        std::uint64_t sampled = 0;
        for (std::uint64_t r = 0; r < plan.row_count; ++r) {
            RowTotals::Reduced& reduced = totals[t].reduced[r];
            add_row(reduced.statistics, w + r);
            for (std::uint64_t b = 0; b < blocks && has_noise_; ++b) {
                const double* product = drawn + plan.draw_quantities() * blocks + r * blocks + b;
                const std::uint64_t lines = plan.row_count * blocks;
                reduced.statistics.over_noise.add({product[lines],
                                                   static_cast<std::int64_t>(product[0]),
                                                   static_cast<std::uint64_t>(product[2 * lines])});
            }
            if (reduced.draw_error.empty()) continue;
            for (std::uint64_t b = 0; b < blocks; ++b) {
                const double* at = drawn + sampled * blocks + b;
                reduced.variance_sum += at[0];
                for (std::uint64_t d = 0; d < plan.draws; ++d) {
                    reduced.draw_error[d] += at[(1 + d) * drawn_pitch];
                    reduced.left_out[d] += at[(1 + plan.draws + d) * drawn_pitch];
                }
            }
            ++sampled;
        }
    }
}

}  // namespace apscope::detail
