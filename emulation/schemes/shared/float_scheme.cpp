#include "emulation/schemes/shared/float_scheme.h"

#include "core/named_formats.h"

namespace apscope::detail {

std::vector<SchemeKey> float_keys(std::vector<SchemeKey> own, std::string_view rounding, std::string_view overflow) {
    own.push_back({"rounding", rounding, "how a value is rounded to the format"});
    own.push_back({"overflow", overflow, "what overflow gives: ieee, saturate, propagate, infinity or nan"});
    own.push_back({"random_bits", "32", "random bits of stochastic rounding, 1 to 64"});
    own.push_back({"accumulate", "format", "what partial sums are rounded to: format, a format's name, fp32 or exact"});
    own.push_back({"hop_rounding", "same", "how partial sums are rounded: same, or a rounding's name"});
    return own;
}

namespace {

FloatGrid grid_of(const SchemeArguments& arguments) {
    FloatGrid grid{*arguments.format, {}};
    grid.projection.rounding = parse_rounding(arguments.text("rounding"));
    require_counted(grid.projection.rounding, "schemes");
    grid.projection.overflow = parse_overflow(arguments.text("overflow"));
    grid.projection.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 64));
    validate(grid.projection, grid.format);
    return grid;
}

}  // namespace

void build_float(const SchemeArguments& arguments, Scheme& scheme) {
    const FloatGrid grid = grid_of(arguments);

    Reduction reduction;
    const std::string& accumulate = arguments.text("accumulate");
    reduction.exact = accumulate == "exact";
    reduction.accumulate = accumulate == "format" || reduction.exact ? grid.format : parse_format(accumulate);
    require_fp32(reduction.accumulate, "a scheme");
    reduction.projection = grid.projection;
    const std::string& hop = arguments.text("hop_rounding");
    if (hop != "same") reduction.projection.rounding = parse_rounding(hop);
    require_counted(reduction.projection.rounding, "schemes");
    validate(reduction.projection, reduction.accumulate);

    scheme.grid = grid;
    scheme.reduction = reduction;
    scheme.side_bits = no_side_bits();
    scheme.transport.code_bits = grid.format.storage_bits();
    scheme.transport.sum_bits = [bits = reduction.accumulate.storage_bits()](int) { return bits; };
    scheme.transport.exact_sums = reduction.exact;
    scheme.transport.agreed_bits = all_side_bits;  // a scale that all workers share
}

Select select_by_amax(const ShiftRule& rule) {
    return [rule](const SelectionInput& input, State&) {
        std::vector<Decision> decisions;
        decisions.reserve(input.statistics.size());
        for (const AgreedStatistics& s : input.statistics) decisions.push_back(power_of_two(rule.own(s.amax, input.workers)));
        return decisions;
    };
}

SideBits no_side_bits() {
    return [](std::size_t) -> std::uint64_t { return 0; };
}

}  // namespace apscope::detail
