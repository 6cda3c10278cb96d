// aps: Auto Precision Scaling. Each unit (a tensor, or `unit` consecutive elements of one) is scaled, at each
// step, by the power of two that brings H amax into (2^(E-1), 2^E], E = floor(log2 largest):
//
//      k = ceil(log2(H amax))     agreed by MAX over the workers; 8 bits of side information
//      s = E - k                  c = round(2^s g), summed in the format, divided by 2^s
//
// H = W leaves room for the sum: no partial sum overflows. k is clamped to that of amax = 2^-126,
// the smallest normal fp32 number, so that 255 values and a code for the zero tensor suffice.
// rule=tight takes the largest s that keeps H amax within the format: no binade is spare. frozen=N
// stops agreeing on a shift that was the same N times; delay=1 uses the one of the step before, so
// that nothing waits for the agreement (and a sum may overflow).
#include <algorithm>
#include <cmath>
#include <limits>

#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"
#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

namespace {

int shift_in_force(const ShiftRule& rule, State& state, const std::string& tensor, std::size_t units, std::size_t unit, double amax,
                   int workers) {
    if (!rule.remembers()) return rule.own(amax, workers);
    Row& last = state.try_emplace("shift/" + tensor, units, 0.0).first->second;
    Row& run = state.try_emplace("run/" + tensor, units, 0.0).first->second;
    return rule.next(amax, workers, last.at(unit), run.at(unit));
}

std::vector<Decision> decide(const ShiftRule& rule, const SelectionInput& input, State& state) {
    std::vector<Decision> decisions;
    decisions.reserve(input.statistics.size());
    for (std::size_t i = 0; i < input.statistics.size(); ++i) {
        const std::string& name = input.names.at(i % input.tensors);
        decisions.push_back(power_of_two(shift_in_force(rule, state, name, 1, 0, input.statistics[i].amax, input.workers)));
    }
    return decisions;
}

// The scale of every element, 2^s of its unit.
Row unit_scales(const ShiftRule& rule, std::size_t unit, const TensorStep& step, State& state, const Rows& rows) {
    const std::size_t n = rows.at(0).size(), units = (n + unit - 1) / unit;
    Row scales(n);
    for (std::size_t u = 0; u < units; ++u) {
        const std::size_t begin = u * unit, end = std::min(begin + unit, n);
        double amax = 0.0;
        for (const Row& row : rows) {
            for (std::size_t i = begin; i < end; ++i) amax = std::max(amax, std::abs(row[i]));
        }
        // Rows that were compensated or transformed need not be fp32 numbers; the rule takes one that is not below.
        float bound = static_cast<float>(amax);
        if (bound < amax) bound = std::nextafter(bound, std::numeric_limits<float>::infinity());
        bound = std::min(bound, std::numeric_limits<float>::max());
        const int s = shift_in_force(rule, state, std::string(step.tensor), units, u, bound, step.workers);
        std::fill(scales.begin() + static_cast<std::ptrdiff_t>(begin), scales.begin() + static_cast<std::ptrdiff_t>(end), power_of_two(s).scale);
    }
    return scales;
}

TensorScheme in_units(const Scheme& scheme, const ShiftRule& rule, std::size_t unit) {
    const FloatGrid grid = std::get<FloatGrid>(scheme.grid);
    TensorScheme t;
    t.grid = scheme.grid_name();
    t.crosses_topologies = true;
    t.keeps_state = rule.remembers();
    t.limits = limits_of(grid.format, make_cast<double>(grid.format, grid.projection));
    t.transport = scheme.transport;
    t.reduction_draws = is_stochastic(scheme.reduction.projection.rounding);
    t.draws = is_stochastic(scheme.grid) || t.reduction_draws;
    t.select = [rule, unit](const TensorStep& step, State& state, const Rows& rows) {
        State theta{{"scales", unit_scales(rule, unit, step, state, rows)}};
        if (const auto s = common_exponent(theta["scales"])) theta["scale_exponent"] = {static_cast<double>(*s)};
        return theta;
    };
    t.encode = [grid, unit](const TensorStep& step, const State& theta, std::span<const double> x, int worker) {
        const Row& scales = theta.at("scales");
        Row scaled(x.begin(), x.end());
        for (std::size_t i = 0; i < x.size(); ++i) scaled[i] *= scales[i];
        Message m = encode_float_row(scaled, 1.0, grid, step.stream(worker, grid.projection.random_bits), step.packs);
        for (std::size_t i = 0; i < x.size(); ++i) {
            m.values[i] /= scales[i];
            if (m.bias.empty()) continue;
            m.bias[i] /= scales[i];
            m.variance[i] = m.variance[i] / scales[i] / scales[i];
        }
        m.side_bits = 8 * ((x.size() + unit - 1) / unit);
        return m;
    };
    t.reduce = [reduction = scheme.reduction](const TensorStep& step, State&, const State& theta, const std::vector<Message>& sent,
                                              const Topology& topology) {
        if (reduction.exact || topology.kind == Topology::Kind::exact) return exact_sum(sent);
        const std::size_t n = sent[0].codes.size();
        std::vector<const double*> rows;
        for (const Message& m : sent) rows.push_back(m.codes.data());
        Row sum(n);
        ReduceScratch<double> scratch;
        reduce(topology, rows, 0, n, n, make_accumulator(reduction.accumulate, reduction.projection), step.key, sum, scratch);
        for (std::size_t i = 0; i < n; ++i) sum[i] /= theta.at("scales")[i];
        return sum;
    };
    return t;
}

}  // namespace

SchemeDefinition aps_definition() {
    return {"aps",
            "APS",
            "a power of two per tensor and step, from the agreed amax with headroom for the sum",
            "Han, Demmel, You, Auto-Precision Scaling for Distributed Deep Learning (arXiv:1911.08907); its code, CPD",
            "gradients; with frozen or delay, of consecutive steps",
            true,
            float_keys({{"headroom", "workers", "room left for the sum: workers, sqrt_workers or one"},
                        {"rule", "ceil", "ceil: E - ceil(log2(H amax)); tight: the largest shift with H amax 2^s <= largest"},
                        {"unit", "tensor", "what shares a shift: tensor, or a number of consecutive elements"},
                        {"frozen", "0", "a shift that was the same in so many consecutive steps stays for good; 0: none does"},
                        {"delay", "0", "1: the shift of the step before, which needs no agreement before sending; the first step uses its own"}}),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                const ShiftRule rule{*arguments.format, std::string(arguments.choice("headroom", headroom_choices)),
                                     arguments.choice("rule", shift_rules) == "tight", arguments.integer("frozen", 0, 1'000'000'000),
                                     arguments.integer("delay", 0, 1) == 1};
                scheme.keeps_state = rule.remembers();
                scheme.select = [rule](const SelectionInput& input, State& state) { return decide(rule, input, state); };
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 8; };
                if (arguments.text("unit") == "tensor") return;
                const auto unit = static_cast<std::size_t>(arguments.integer("unit", 1, 1L << 40));
                scheme.tensor = std::make_shared<const TensorScheme>(in_units(scheme, rule, unit));
            }};
}

}  // namespace apscope::detail
