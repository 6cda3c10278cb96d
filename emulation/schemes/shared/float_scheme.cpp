#include "emulation/schemes/shared/float_scheme.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/named_formats.h"
#include "core/parse.h"

namespace apscope::detail {

std::vector<SchemeKey> float_keys(std::vector<SchemeKey> keys, const FloatDefaults& defaults) {
    keys.push_back({"rounding", defaults.rounding, "how a value is rounded to the format"});
    keys.push_back({"overflow", defaults.overflow,
                    "the result of overflow: ieee, saturate, propagate, infinity or nan"});
    keys.push_back({"random_bits", "32", "random bits of stochastic rounding, 1 to 64"});
    keys.push_back(correlated_key);
    keys.push_back({"accumulate", defaults.accumulate,
                    "format of partial sums: format, a format's name, fp32 or exact"});
    keys.push_back(
        {"hop_rounding", "same", "how partial sums are rounded: same, or a rounding's name"});
    keys.push_back({"divide", "after",
                    "where sums are divided by W: after (by the caller, in fp64), or in the format "
                    "before the sum by W (before), sqrt(W) (sqrt), FSDP's factor (fsdp) or a "
                    "number, and after it by the rest"});
    return keys;
}

namespace {

Division division_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 4> places{"after", "before", "sqrt", "fsdp"};
    const std::string& text = arguments.text("divide");
    const auto match = std::ranges::find(places, text);
    if (match != places.end()) return {static_cast<Division::Place>(match - places.begin()), 1.0};
    return {Division::Place::factor,
            parse_value<double>(
                "divide", text,
                [](double number) {
                    return number >= 1.0 &&
                           static_cast<double>(static_cast<float>(number)) == number;
                },
                "after, before, sqrt, fsdp or an fp32 number of at least 1 (such as 8)")};
}

FloatGrid grid_of(const SchemeArguments& arguments) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the definition takes a format
    FloatGrid grid{*arguments.format, {}};
    grid.projection.rounding = parse_rounding(arguments.text("rounding"));
    require_counted(grid.projection.rounding, "schemes");
    grid.projection.overflow = parse_overflow(arguments.text("overflow"));
    grid.projection.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 64));
    validate(grid.projection, grid.format);
    grid.division = division_of(arguments);
    return grid;
}

SchemeParts parts_of(const FloatEncoder& encoder, Choose choose) {
    const FloatFormat& format = encoder.grid.format;
    return {.grid = format.name(),
            // All workers have the same scale, so they agree on all side information.
            .transport = {.code_bits = format.storage_bits(), .agreed_bits = all_side_bits},
            .choice = {.choose = std::move(choose)},
            .encoding = {.float_encoder = encoder, .rounds_special = true}};
}

}  // namespace

SchemeParts float_scheme(const SchemeArguments& arguments, std::uint64_t side_bits, Choose choose) {
    const FloatGrid grid = grid_of(arguments);
    Reduction reduction;
    const std::string& accumulate = arguments.text("accumulate");
    reduction.exact = accumulate == "exact";
    reduction.accumulate =
        accumulate == "format" || reduction.exact ? grid.format : parse_format(accumulate);
    require_fp32(reduction.accumulate, "a scheme");
    reduction.projection = grid.projection;
    const std::string& hop = arguments.text("hop_rounding");
    if (hop != "same") reduction.projection.rounding = parse_rounding(hop);
    require_counted(reduction.projection.rounding, "schemes");
    validate(reduction.projection, reduction.accumulate);

    SchemeParts scheme = parts_of({grid, reduction, side_bits}, std::move(choose));
    scheme.transport.sum_bits = [bits = reduction.accumulate.storage_bits()](int) { return bits; };
    scheme.transport.exact_sums = reduction.exact;
    return scheme;
}

SchemeParts float_scheme(const SchemeArguments& arguments, const Decision& constant) {
    SchemeParts scheme =
        float_scheme(arguments, 0, [constant](const SelectionInput& input, State&) {
            return std::vector<Decision>(input.statistics.size(), constant);
        });
    scheme.choice.is_constant = true;
    return scheme;
}

void require_undivided(const FloatGrid& grid, const SchemeArguments& arguments,
                       std::string_view gathers) {
    if (grid.division == Division{}) return;
    throw std::invalid_argument("divide=" + arguments.text("divide") + " needs sums in a format; " +
                                std::string(gathers) +
                                " gathers the codes and adds decoded values; use divide=after");
}

SchemeParts gathered_scheme(const SchemeArguments& arguments, const FloatFormat& format,
                            Overflow overflow) {
    const FloatGrid grid{format,
                         {RoundingMode::stochastic, overflow,
                          static_cast<int>(arguments.integer("random_bits", 1, 64))}};
    validate(grid.projection, format);
    const ShiftRule rule{format, Headroom::one};
    return parts_of({grid, Reduction::gathered(), 8},
                    choose_each([rule](const TensorStatistics& s, State&) {
                        return power_of_two(rule.shift(s.agreed.amax, s.workers));
                    }));
}
}  // namespace apscope::detail
