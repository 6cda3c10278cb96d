#include "emulation/schemes/as_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/fixed_shape_sum.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/machine/divide.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

SelectionInput statistics_of(const TrainingStep& step, std::span<const RowReader> rows) {
    AgreedStatistics s;
    s.elements = rows[0].size;
    s.nonfinite = step.nonfinite;
    for (const RowReader& row : rows) {
        for_runs(row, std::max<std::size_t>(row.size, 1),
                 [&](std::size_t, std::span<const double> x) {
            s.amax = std::max(s.amax, amax_of(x));
            s.sum += block_sum(x.size(), [&](std::size_t i) { return x[i]; });
            s.sum_absolute += block_sum(x.size(), [&](std::size_t i) { return std::abs(x[i]); });
            s.sum_squares += block_sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
        });
    }
    s.amax = fp32_bound(s.amax);
    return {1, 1, step.workers, {s}, {step.tensor}, {step.number}};
}

// Partial sums of the codes in the format, divided by the scales.
void reduce_in_format(const Reduction& reduction, const RowCast& accumulator,
                      const TrainingStep& step, const Parameters& theta, const Place& place,
                      const std::vector<Message>& sent, const Topology& topology, Row& sum) {
    if (reduction.exact || topology.kind == Topology::Kind::exact) return exact_sum(sent, sum);
    const std::size_t count = sent[0].codes.size();
    thread_local ReduceScratch<double> scratch;
    thread_local std::vector<const double*> rows;
    rows.clear();
    for (const Message& m : sent) rows.push_back(m.codes.data());
    sum.resize(count);
    if (count == 0) return;
    reduce(topology, rows, place.first, count, place.size, accumulator, step.key, sum, scratch);
    if (theta.scales.empty()) {
        simd::run<DivideRow>(sum.data(), theta.common_scale(), count);
    } else {
        for (std::size_t i = 0; i < count; ++i)
            sum[i] /= theta.scales[(place.first + i) / theta.unit];
    }
}

}  // namespace

double fp32_bound(double amax) {
    auto bound = static_cast<float>(amax);
    if (static_cast<double>(bound) < amax)
        bound = std::nextafter(bound, std::numeric_limits<float>::infinity());
    return std::min(bound, std::numeric_limits<float>::max());
}

TensorScheme as_tensor_scheme(const FloatScheme& scheme) {
    TensorScheme t;
    t.grid = scheme.grid.format.name();
    t.transport = scheme.transport;
    t.keeps_state = scheme.keeps_state;
    t.draws = is_stochastic(scheme.grid);
    t.limits = limits_of(scheme.grid.format,
                         make_cast<double>(scheme.grid.format, scheme.grid.projection));
    SchemeParts part;
    part.select = [select = scheme.select](const TrainingStep& step, State& state,
                                           std::span<const RowReader> rows) {
        const Decision d = select(statistics_of(step, rows), state).at(0);
        Parameters theta;
        theta.scale = d.scale;
        theta.scale_exponent = d.exponent;
        theta.skipped = d.skipped;
        return theta;
    };
    part.encode = [grid = scheme.grid, side = scheme.side_bits](
                      const TrainingStep& step, const Parameters& theta, std::span<const double>,
                      const Place& place, std::span<const double> x, int worker, Message& m) {
        encode_float_row(m, x, theta.common_scale(), grid,
                         step.stream(worker, grid.projection.random_bits), step.packs, place.first);
        m.side_bits = side;
    };
    if (scheme.reduction.collective == Collective::all_reduce) {
        t.crosses_topologies = true;
        t.reduction_draws = is_stochastic(scheme.reduction.projection.rounding);
        t.draws = t.draws || t.reduction_draws;
        part.reduce = [reduction = scheme.reduction,
                       accumulator = make_accumulator(scheme.reduction.accumulate,
                                                      scheme.reduction.projection)](
                          const TrainingStep& step, const State&, const Parameters& theta,
                          const Place& place, const std::vector<Message>& sent,
                          const Topology& topology, Row& sum) {
            reduce_in_format(reduction, accumulator, step, theta, place, sent, topology, sum);
        };
    }
    t.parts = std::move(part);
    return t;
}

TensorScheme as_tensor_scheme(const Scheme& scheme) {
    if (std::holds_alternative<Policy>(scheme.kind)) {
        throw std::invalid_argument(
            "scheme '" + scheme.spec +
            "' is a policy; put the combinator inside its branches instead");
    }
    if (const auto* t = std::get_if<TensorScheme>(&scheme.kind)) return *t;
    return as_tensor_scheme(std::get<FloatScheme>(scheme.kind));
}

TensorScheme inner_tensor_scheme(const Scheme& scheme) {
    if (const auto* f = std::get_if<FloatScheme>(&scheme.kind); f != nullptr && f->joins_tensors) {
        throw std::invalid_argument(
            "scheme '" + scheme.spec +
            "' has one scale for several tensors of a step, but a scheme around it sees one at a "
            "time; use a scheme that scales each tensor separately");
    }
    return as_tensor_scheme(scheme);
}

}  // namespace apscope::detail
