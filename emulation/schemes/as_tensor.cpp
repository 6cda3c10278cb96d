#include "emulation/schemes/as_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/fixed_shape_sum.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/codecs/float_row.h"

namespace apscope::detail {

namespace {

SelectionInput statistics_of(const TrainingStep& step, const Rows& rows) {
    AgreedStatistics s;
    s.elements = rows.at(0).size();
    for (const Row& row : rows) {
        for (const double x : row) s.amax = std::max(s.amax, std::abs(x));
        for (std::size_t b = 0; b < row.size(); b += sum_block) {
            const std::size_t count = std::min(sum_block, row.size() - b);
            s.sum += block_sum(count, [&](std::size_t i) { return row[b + i]; });
            s.sum_absolute += block_sum(count, [&](std::size_t i) { return std::abs(row[b + i]); });
            s.sum_squares += block_sum(count, [&](std::size_t i) { return row[b + i] * row[b + i]; });
        }
    }
    s.amax = fp32_bound(s.amax);
    return {1, 1, step.workers, {s}, {step.tensor}, {step.number}};
}

// Partial sums of the codes in the format, divided by the scales.
Row reduce_in_format(const Reduction& reduction, const TrainingStep& step, const Parameters& theta, const std::vector<Message>& sent,
                     const Topology& topology) {
    if (reduction.exact || topology.kind == Topology::Kind::exact) return exact_sum(sent);
    const std::size_t n = sent[0].codes.size();
    std::vector<const double*> rows;
    for (const Message& m : sent) rows.push_back(m.codes.data());
    Row sum(n);
    ReduceScratch<double> scratch;
    reduce(topology, rows, 0, n, n, make_accumulator(reduction.accumulate, reduction.projection), step.key, sum, scratch);
    for (std::size_t i = 0; i < n; ++i) sum[i] /= theta.scales.empty() ? theta.common_scale() : theta.scales[i];
    return sum;
}

}  // namespace

double fp32_bound(double amax) {
    auto bound = static_cast<float>(amax);
    if (static_cast<double>(bound) < amax) bound = std::nextafter(bound, std::numeric_limits<float>::infinity());
    return std::min(bound, std::numeric_limits<float>::max());
}

TensorScheme as_tensor_scheme(const FloatScheme& scheme) {
    TensorScheme t;
    t.grid = scheme.grid.format.name();
    t.transport = scheme.transport;
    t.keeps_state = scheme.keeps_state;
    t.draws = is_stochastic(scheme.grid);
    t.limits = limits_of(scheme.grid.format, make_cast<double>(scheme.grid.format, scheme.grid.projection));
    t.select = [select = scheme.select](const TrainingStep& step, State& state, const Rows& rows) {
        const Decision d = select(statistics_of(step, rows), state).at(0);
        Parameters theta;
        theta.scale = d.scale;
        theta.scale_exponent = d.exponent;
        theta.skipped = d.skipped;
        return theta;
    };
    t.encode = [grid = scheme.grid, side = scheme.side_bits](const TrainingStep& step, const Parameters& theta, std::span<const double> x,
                                                             int worker) {
        const RandomStream stream = step.stream(worker, grid.projection.random_bits);
        Message m = encode_float_row(x, theta.common_scale(), grid, stream, step.packs);
        m.side_bits = side;
        return m;
    };
    if (scheme.reduction.collective == Collective::all_gather) return t;
    t.crosses_topologies = true;
    t.reduction_draws = is_stochastic(scheme.reduction.projection.rounding);
    t.draws = t.draws || t.reduction_draws;
    t.reduce = [reduction = scheme.reduction](const TrainingStep& step, State&, const Parameters& theta, const std::vector<Message>& sent,
                                              const Topology& topology) { return reduce_in_format(reduction, step, theta, sent, topology); };
    return t;
}

TensorScheme as_tensor_scheme(const Scheme& scheme) {
    if (std::holds_alternative<Policy>(scheme.kind)) {
        throw std::invalid_argument("scheme '" + scheme.spec + "' is a policy; put the combinator inside its branches instead");
    }
    if (const auto* t = std::get_if<TensorScheme>(&scheme.kind)) return *t;
    return as_tensor_scheme(std::get<FloatScheme>(scheme.kind));
}

}  // namespace apscope::detail
