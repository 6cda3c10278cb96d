// aps: Auto Precision Scaling. At each step, each unit is multiplied by the power of two that
// brings H amax into (2^(E-1), 2^E], E = floor(log2 largest):
//
//      k = ceil(log2(H amax))      agreed by MAX over the workers; 8 bits of side information
//      s = E - k
//      c = round(2^s g)
//      y = (sum of c) / 2^s        summed in the format
//
// H = W leaves room for the sum: W values of 2^s amax add up to at most 2^E. k is at least the k of
// amax = 2^-126, the smallest normal fp32 number, so that 8 bits suffice for k and a code for the
// zero tensor. rule=tight takes the largest s with 2^s H amax <= largest. With frozen=N, a shift s
// that was the same in N consecutive steps does not change any more. delay=1 uses the shift of the
// step before, so that sending does not wait for the agreement (a sum may then overflow). A unit is
// a tensor, all tensors of the step, the tensors of a bucket (tensor_units.h), or a part of a
// tensor: a row of a matrix, or `unit` consecutive elements (with the key `bucket`, of the bucket's
// array, buckets.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/parse.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/row_length.h"

namespace apscope::detail {

namespace {

// The key of the maps is the name of a unit of tensors or, if a tensor has several units, of the
// tensor; the vectors have one entry per unit.
struct Memory {
    std::map<std::string, std::vector<int>> shift;  // the last shift
    std::map<std::string, std::vector<long>> run;   // consecutive steps with the last shift

    void fields(Fields& f) {
        f.each("shift", shift);
        f.each("run", run);
    }
};

int shift_in_force(const ShiftRule& rule, State& state, const std::string& name, std::size_t units,
                   std::size_t unit, double amax, int workers) {
    if (!rule.remembers()) return rule.shift(amax, workers);
    Memory& memory = state.of<Memory>();
    std::vector<int>& last = memory.shift.try_emplace(name, units).first->second;
    std::vector<long>& run = memory.run.try_emplace(name, units).first->second;
    if (last.size() != units || run.size() != units)
        throw std::invalid_argument("the state has " + std::to_string(last.size()) +
                                    " shifts and " + std::to_string(run.size()) + " runs of '" +
                                    name + "', which has " + std::to_string(units) + " units");
    return rule.next(amax, workers, last[unit], run[unit]);
}

std::vector<Decision> decide(const ShiftRule& rule, const TensorUnits& units,
                             const SelectionInput& input, State& state) {
    std::vector<Decision> decisions(input.statistics.size());
    for (std::size_t step = 0; step < input.steps; ++step) {
        for (const TensorUnit& unit : units.of(input, step)) {
            double amax = 0.0;
            for (const std::size_t k : unit.tensors) amax = std::max(amax, input.at(step, k).amax);
            const Decision agreed =
                power_of_two(shift_in_force(rule, state, unit.name, 1, 0, amax, input.workers));
            for (const std::size_t k : unit.tensors) {
                Decision& decision = decisions[step * input.tensors + k] = agreed;
                if (k != unit.tensors.front())
                    decision.side_bits = 0;  // only the unit's first tensor sends the shift
            }
        }
    }
    return decisions;
}

// The number of consecutive elements of a tensor that share a shift: `length` or, if not set, a
// row.
struct Run {
    std::optional<std::size_t> length;

    std::size_t of(const TrainingStep& step, std::size_t elements) const {
        return length ? *length : row_length(step, elements);
    }
};

// The scale 2^s of every unit of `unit` elements.
Row unit_scales(const ShiftRule& rule, std::size_t unit, std::size_t lead,
                const Selection& selection) {
    const std::size_t size = selection.rows[0].size, units = (lead + size + unit - 1) / unit;
    Row scales(units, 0.0);
    for (std::size_t w = 0; w < selection.rows.size(); ++w)
        raise_to_amax(blocks_around(selection.step, selection.rows[w], size, w, unit).row, unit,
                      scales);
    for (std::size_t u = 0; u < units; ++u) {
        scales[u] = power_of_two(shift_in_force(rule, selection.state, selection.step.tensor, units,
                                                u, fp32_bound(scales[u]), selection.step.workers))
                        .scale;
    }
    return scales;
}

// Gives the scheme one scale per unit.
void set_units(SchemeParts& scheme, const ShiftRule& rule, const Run& run) {
    scheme.choice.select = [rule, run](const Selection& s) {
        Parameters theta;
        theta.unit = run.of(s.step, s.rows[0].size);
        theta.lead = lead_of(s.step, s.rows[0].size, theta.unit);
        theta.scales = unit_scales(rule, theta.unit, theta.lead, s);
        theta.scale_exponent = common_exponent(theta.scales);
        return theta;
    };
    scheme.choice.measure = [run](const WorkerRow& r) {
        Row scales;  // one per unit, even if theta has one per element
        if (r.theta.scales.empty() && r.x.size > 0)
            throw std::invalid_argument("select gave no scales, which unit= needs");
        const std::size_t unit = run.of(r.step, r.x.size), lead = lead_of(r.step, r.x.size, unit);
        for (std::size_t first = 0, left = unit - lead; first < r.x.size;
             first += std::min(left, r.x.size - first), left = unit)
            scales.push_back(r.theta.scale_at(first));
        return scales;
    };
    scheme.encoding.encode = [grid = scheme.encoding.float_encoder->grid, run](const RowPiece& p,
                                                                               Message& m) {
        const std::size_t unit = run.of(p.step, p.place.size);
        const BlocksAround around =
            blocks_around(p.step, RowReader::of(p.x), p.place.size, p.worker, unit);
        encode_float_row(p, p.measured, unit, grid, m, around.lead);
        m.side_bits = 8 * around.begun;
        const bool is_row = !run.length && p.step.shape.size() < 2;
        if (is_row) m.tensor_bits = m.side_bits;
    };
}

}  // namespace

SchemeDefinition aps_definition() {
    return {
        .class_name = "APS",
        .summary =
            "a power of two per tensor and step, from the agreed amax with headroom for the sum",
        .source = "Han, Demmel, You, Auto-Precision Scaling for Distributed Deep Learning "
                  "(arXiv:1911.08907); its code, CPD",
        .needs = "gradients; with frozen or delay, of consecutive steps",
        .takes_format = true,
        .keys = float_keys(
            {headroom_key(),
             {"rule", "ceil",
              "ceil: E - ceil(log2(H amax)); tight: the largest shift with H amax 2^s <= largest"},
             {"unit", "tensor",
              "elements that share a shift: model (all tensors), bucket:SIZE (such as 25MB: "
              "tensors as in DDP's buckets), tensor, row (of the first axis), or a number of "
              "consecutive elements"},
             bucket_key(),
             {"frozen", "0",
              "number of consecutive steps with the same shift after which it is constant; 0: "
              "never"},
             {"delay", "0",
              "1: the shift of the step before, which needs no agreement before sending; the first "
              "step uses its own"}}),
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            SchemeParts scheme = float_scheme(arguments, 8);
            ShiftRule rule = ShiftRule::of(arguments);
            rule.frozen = arguments.integer("frozen", 0, 1'000'000'000);
            rule.delayed = arguments.integer("delay", 0, 1) == 1;
            scheme.memory.keeps = rule.remembers();
            const std::string& unit = arguments.text("unit");
            TensorUnits tensors;
            std::optional<Run> run;
            if (unit == "row") {
                run.emplace();
            } else if (unit == "model") {
                tensors.kind = TensorUnits::Kind::model;
            } else if (constexpr std::string_view bucket = "bucket:"; unit.starts_with(bucket)) {
                tensors = {TensorUnits::Kind::bucket,
                           parse_bucket_size("unit=bucket:",
                                             std::string_view(unit).substr(bucket.size()))};
            } else if (unit != "tensor") {
                const long length = arguments.integer(
                    "unit", 1, largest_count, "model, bucket:SIZE (as bucket:25MB), tensor, row");
                run = {static_cast<std::size_t>(length)};
            }
            scheme.bucket = bucket_of(
                arguments,
                !(run && run->length) ? "unit=" + unit +
                                            " is not a number of elements; give "
                                            "unit=N"
                : rule.remembers()
                    ? "frozen and delay keep the shifts of a tensor's units; leave them out"
                    : "");
            if (run) {
                set_units(scheme, rule, *run);
                scheme.transport.scale_bits = 8;
                scheme.transport.unit = run->length.value_or(0);
                if (!rule.remembers()) scheme.block = run->length.value_or(0);
                if (scheme.bucket != 0) scheme.run = whole_row;
                if (run->length && !rule.remembers() && scheme.bucket == 0)
                    scheme.encoding.units = {*run->length, [rule](double amax, int workers) {
                                                 return rule.shift(fp32_bound(amax), workers);
                                             }};
                return scheme;
            }
            scheme.choice.joins_tensors = tensors.kind != TensorUnits::Kind::tensor;
            scheme.choice.choose = [rule, tensors](const SelectionInput& input, State& state) {
                return decide(rule, tensors, input, state);
            };
            return scheme;
        }};
}

}  // namespace apscope::detail
