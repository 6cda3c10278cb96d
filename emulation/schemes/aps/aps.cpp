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

#include "emulation/schemes/as_tensor.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

namespace {

struct Memory {  // of every tensor's units
    std::map<std::string, std::vector<int>> shift;  // the last one
    std::map<std::string, std::vector<long>> run;   // how often in a row it was that

    void fields(Fields& f) {
        f.each("shift", shift);
        f.each("run", run);
    }
};

int shift_in_force(const ShiftRule& rule, State& state, const std::string& tensor, std::size_t units, std::size_t unit, double amax, int workers) {
    if (!rule.remembers()) return rule.own(amax, workers);
    Memory& memory = state.of<Memory>();
    std::vector<int>& last = memory.shift.try_emplace(tensor, units).first->second;
    std::vector<long>& run = memory.run.try_emplace(tensor, units).first->second;
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
Row unit_scales(const ShiftRule& rule, std::size_t unit, const TrainingStep& step, State& state, const Rows& rows) {
    const std::size_t n = rows.at(0).size(), units = (n + unit - 1) / unit;
    Row scales(n);
    for (std::size_t u = 0; u < units; ++u) {
        const std::size_t begin = u * unit, end = std::min(begin + unit, n);
        double amax = 0.0;
        for (const Row& row : rows) {
            for (std::size_t i = begin; i < end; ++i) amax = std::max(amax, std::abs(row[i]));
        }
        const int s = shift_in_force(rule, state, step.tensor, units, u, fp32_bound(amax), step.workers);
        std::fill(scales.begin() + static_cast<std::ptrdiff_t>(begin), scales.begin() + static_cast<std::ptrdiff_t>(end), power_of_two(s).scale);
    }
    return scales;
}

Message encode_units(std::span<const double> x, const Row& scales, std::size_t unit, const FloatGrid& grid, const RandomStream& stream, bool packs) {
    Row scaled(x.begin(), x.end());
    for (std::size_t i = 0; i < x.size(); ++i) scaled[i] *= scales[i];
    Message m = encode_float_row(scaled, 1.0, grid, stream, packs);
    for (std::size_t i = 0; i < x.size(); ++i) {
        m.values[i] /= scales[i];
        if (m.bias.empty()) continue;
        m.bias[i] /= scales[i];
        m.variance[i] = m.variance[i] / scales[i] / scales[i];
    }
    BlockUse blocks;
    for (std::size_t first = 0; first < x.size(); first += unit) {
        blocks.add(x, m.saturated, first, std::min(unit, x.size() - first), 1.0 / scales[first]);
    }
    m.block_use = blocks;
    m.side_bits = 8 * ((x.size() + unit - 1) / unit);
    return m;
}

// The same scheme with a scale a unit.
TensorScheme in_units(const FloatScheme& scheme, const ShiftRule& rule, std::size_t unit) {
    TensorScheme t = as_tensor_scheme(scheme);
    t.select = [rule, unit](const TrainingStep& step, State& state, const Rows& rows) {
        Parameters theta;
        theta.scales = unit_scales(rule, unit, step, state, rows);
        theta.scale_exponent = common_exponent(theta.scales);
        return theta;
    };
    t.encode = [grid = scheme.grid, unit](const TrainingStep& step, const Parameters& theta, std::span<const double> x, int worker) {
        return encode_units(x, theta.scales, unit, grid, step.stream(worker, grid.projection.random_bits), step.packs);
    };
    return t;
}

}  // namespace

SchemeDefinition aps_definition() {
    return {.class_name = "APS",
            .summary = "a power of two per tensor and step, from the agreed amax with headroom for the sum",
            .source = "Han, Demmel, You, Auto-Precision Scaling for Distributed Deep Learning (arXiv:1911.08907); its code, CPD",
            .needs = "gradients; with frozen or delay, of consecutive steps",
            .takes_format = true,
            .keys =
                float_keys({headroom_key(),
                            {"rule", "ceil", "ceil: E - ceil(log2(H amax)); tight: the largest shift with H amax 2^s <= largest"},
                            {"unit", "tensor", "what shares a shift: tensor, or a number of consecutive elements"},
                            {"frozen", "0", "a shift that was the same in so many consecutive steps stays for good; 0: none does"},
                            {"delay", "0", "1: the shift of the step before, which needs no agreement before sending; the first step uses its own"}}),
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        FloatScheme scheme = float_scheme(arguments);
        ShiftRule rule = ShiftRule::of(arguments);
        rule.frozen = arguments.integer("frozen", 0, 1'000'000'000);
        rule.delayed = arguments.integer("delay", 0, 1) == 1;
        scheme.keeps_state = rule.remembers();
        scheme.select = [rule](const SelectionInput& input, State& state) { return decide(rule, input, state); };
        scheme.side_bits = 8;
        if (arguments.text("unit") == "tensor") return scheme;
        return in_units(scheme, rule, static_cast<std::size_t>(arguments.integer("unit", 1, 1L << 40)));
    }};
}

}  // namespace apscope::detail
