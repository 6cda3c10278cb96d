#include "emulation/schemes/as_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/fixed_shape_sum.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/uniform_grid.h"

namespace apscope::detail {

namespace {

// The least fp32 number that is not below: amax of values that fp32 may not hold.
double up_to_fp32(double amax) {
    const float nearest = static_cast<float>(amax);
    if (static_cast<double>(nearest) >= amax) return nearest;
    return std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

SelectionInput statistics_of(const TensorStep& step, const Rows& rows) {
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
    s.amax = std::min(up_to_fp32(s.amax), static_cast<double>(std::numeric_limits<float>::max()));
    return {1, 1, step.workers, {s}, {std::string(step.tensor)}, {step.number}};
}

Row reduce_in_format(const Scheme& scheme, const TensorStep& step, const State& theta, const std::vector<Message>& sent,
                     const Topology& topology) {
    if (scheme.reduction.exact || topology.kind == Topology::Kind::exact) return exact_sum(sent);
    const std::size_t n = sent[0].values.size();
    std::vector<const double*> rows;
    for (const Message& m : sent) rows.push_back(m.codes.data());
    Row sum(n);
    ReduceScratch<double> scratch;
    reduce(topology, rows, 0, n, n, make_accumulator(scheme.reduction.accumulate, scheme.reduction.projection), step.key, sum, scratch);
    for (double& y : sum) y /= number(theta, "scale");
    return sum;
}

}  // namespace

TensorScheme as_tensor_scheme(const Scheme& scheme) {
    if (!scheme.policy.empty()) {
        throw std::invalid_argument("scheme '" + scheme.spec + "' is a policy; put the combinator inside its branches instead");
    }
    if (scheme.tensor) return *scheme.tensor;

    TensorScheme t;
    t.grid = scheme.grid_name();
    t.draws = is_stochastic(scheme.grid);
    t.transport = scheme.transport;
    if (const auto* uniform = std::get_if<UniformGrid>(&scheme.grid)) {
        t.encode = [grid = *uniform](const TensorStep& step, const State&, std::span<const double> x, int worker) {
            return encode_uniform_row(x, grid, step.stream(worker, grid.random_bits), step.packs);
        };
        return t;
    }
    t.keeps_state = scheme.keeps_state;
    const FloatGrid& floats = std::get<FloatGrid>(scheme.grid);
    t.limits = limits_of(floats.format, make_cast<double>(floats.format, floats.projection));
    t.select = [scheme](const TensorStep& step, State& state, const Rows& rows) {
        const Decision d = scheme.select(statistics_of(step, rows), state).at(0);
        State theta{{"scale", {d.scale}}};
        if (d.exponent) theta["scale_exponent"] = {static_cast<double>(*d.exponent)};
        if (d.skipped) theta["skipped"] = {1.0};
        return theta;
    };
    t.encode = [grid = floats, side = scheme.side_bits](const TensorStep& step, const State& theta,
                                                                                std::span<const double> x, int worker) {
        const RandomStream stream = step.stream(worker, grid.projection.random_bits);
        Message m = encode_float_row(x, number(theta, "scale"), grid, stream, step.packs);
        m.side_bits = side(x.size());
        return m;
    };
    if (scheme.reduction.algebra == Algebra::gather) return t;
    t.crosses_topologies = true;
    t.reduction_draws = is_stochastic(scheme.reduction.projection.rounding);
    t.draws = t.draws || t.reduction_draws;
    t.reduce = [scheme](const TensorStep& step, State&, const State& theta, const std::vector<Message>& sent, const Topology& topology) {
        return reduce_in_format(scheme, step, theta, sent, topology);
    };
    return t;
}

}  // namespace apscope::detail
