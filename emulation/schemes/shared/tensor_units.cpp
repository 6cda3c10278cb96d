#include "emulation/schemes/shared/tensor_units.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/parse.h"

namespace apscope::detail {

namespace {

// The largest limit, in bytes, of the first bucket. DDP's first bucket is small, so that its
// exchange begins early.
constexpr std::size_t first_limit = std::size_t{1} << 20;

}  // namespace

std::vector<TensorUnit> TensorUnits::of(std::size_t tensors, const ServedElements& elements) const {
    std::vector<TensorUnit> units;
    std::size_t bytes = 0;
    bool full = true;
    for (std::size_t k = tensors; k-- > 0;) {
        const std::optional<std::size_t> size = elements(k);
        if (!size) continue;
        if (full) {
            const std::string bucket = "bucket" + std::to_string(units.size());
            units.push_back({kind == Kind::model ? "model" : bucket, {}});
            bytes = 0;
        }
        units.back().tensors.push_back(k);
        bytes += sizeof(float) * *size;
        full = kind == Kind::tensor ||
               (kind == Kind::bucket &&
                bytes >= (units.size() == 1 ? std::min(limit, first_limit) : limit));
    }
    return units;
}

std::vector<TensorUnit> TensorUnits::of(const SelectionInput& input, std::size_t step) const {
    std::vector<TensorUnit> units = of(input.tensors, [&](std::size_t k) {
        if (!input.is_assigned(step, k)) return std::optional<std::size_t>();
        return std::optional(input.whole_elements.empty() ? input.at(step, k).elements
                                                          : input.whole_elements[k]);
    });
    for (TensorUnit& unit : units)
        if (kind == Kind::tensor) unit.name = input.names.at(unit.tensors.front());
    return units;
}

std::size_t parse_bucket_size(std::string_view before, std::string_view text) {
    constexpr std::array<std::pair<std::string_view, int>, 3> units{
        {{"KB", 10}, {"MB", 20}, {"GB", 30}}};
    std::string_view digits = text;
    int shift = 0;
    for (const auto& [unit, bits] : units) {
        if (!text.ends_with(unit)) continue;
        digits.remove_suffix(unit.size());
        shift = bits;
    }
    const std::optional<long> size = parse_number<long>(digits);
    if (!size || *size < 1 || *size > largest_count >> shift) {
        throw std::invalid_argument(
            std::string(before) + std::string(text) +
            " has no bucket size; give bytes, KB, MB or GB up to 1024GB, as in " +
            std::string(before) + "25MB");
    }
    return static_cast<std::size_t>(*size) << shift;
}

}  // namespace apscope::detail
