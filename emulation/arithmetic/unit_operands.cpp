#include "emulation/arithmetic/unit_operands.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "emulation/cast/quantize.h"

namespace apscope::detail {

int unit_operand_exponent(
    const MatrixUnitOrder& order, std::size_t operand,
    const std::function<std::optional<std::size_t>(const FloatFormat&)>& first_other,
    const std::function<float(std::size_t)>& number) {
    const std::vector<std::string>& inputs = order.inputs[operand];
    if (inputs.empty()) return -126;
    std::size_t refused = 0;
    std::string formats;
    for (const std::string& name : inputs) {
        const FloatFormat format = parse_format(name);
        const std::optional<std::size_t> other = first_other(format);
        if (!other) return format.emin();
        refused = std::max(refused, *other);
        formats += (formats.empty() ? "" : " or ") + name;
    }
    throw std::invalid_argument(std::string(operand == 0 ? "a" : "b") + " has " +
                                shortest(static_cast<double>(number(refused))) + " at element " +
                                std::to_string(refused) + ", which is not a value of " + formats +
                                ", the inputs of order=" + limits::clipped(order.text) +
                                "; quantize it first");
}

int unit_operand_exponent(std::span<const float> x, const MatrixUnitOrder& order,
                          std::size_t operand, int threads) {
    std::vector<float> cast(order.inputs[operand].empty() ? 0 : x.size());
    const auto first_other = [&](const FloatFormat& format) -> std::optional<std::size_t> {
        quantize(x, cast, format, {}, {}, threads);
        const auto differs =
            std::mismatch(x.begin(), x.end(), cast.begin(), [](float given, float value) {
                return given == value || (std::isnan(given) && std::isnan(value));
            });
        if (differs.first == x.end()) return std::nullopt;
        return static_cast<std::size_t>(differs.first - x.begin());
    };
    return unit_operand_exponent(order, operand, first_other, [&](std::size_t i) { return x[i]; });
}

void check_unit_scales(const UnitScales<float>& scales, const MatrixUnitOrder& order,
                       std::size_t batches, std::size_t rows, std::size_t terms,
                       std::size_t columns) {
    if (order.scales.empty()) {
        if (!scales.a.empty() || !scales.b.empty())
            throw std::invalid_argument("order=" + limits::clipped(order.text) +
                                        " takes no scales; leave them out");
        return;
    }
    const FloatFormat format = parse_format(order.scales);
    const auto size = static_cast<std::size_t>(order.unit.scaled),
               pieces = (terms + size - 1) / size;
    const auto check = [&](std::span<const float> given, std::size_t outer, const char* what) {
        const std::string name = std::string("the scales of ") + what;
        if (given.size() != batches * pieces * outer)
            throw std::invalid_argument(
                "order=" + limits::clipped(order.text) + " needs a scale for every " +
                std::to_string(size) + " terms; " + name + " have " + std::to_string(given.size()) +
                " elements, not " + std::to_string(batches * pieces * outer));
        std::vector<float> cast(given.size());
        quantize(given, cast, format, {});
        for (std::size_t i = 0; i < given.size(); ++i)
            if (given[i] == given[i] && (given[i] != cast[i] || std::signbit(given[i])))
                throw std::invalid_argument(
                    name + " have " + shortest(static_cast<double>(given[i])) + " at element " +
                    std::to_string(i) + ", which is not a positive value or 0 of " + order.scales);
    };
    check(scales.a, rows, "a");
    check(scales.b, columns, "b");
}

}  // namespace apscope::detail
