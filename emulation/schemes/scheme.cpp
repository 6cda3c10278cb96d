#include "emulation/schemes/scheme.h"

#include <algorithm>
#include <cmath>

namespace apscope::detail {

std::uint64_t payload_bits(const FloatGrid& grid, std::size_t elements) {
    return static_cast<std::uint64_t>(grid.format.storage_bits()) * elements;
}

bool is_stochastic(const FloatGrid& grid) { return is_stochastic(grid.projection.rounding); }

Reduction Reduction::gathered() { return {Collective::all_gather, false, make_format(8, 23), {}}; }

Decision power_of_two(int exponent) { return {std::ldexp(1.0, exponent), exponent, false, {}}; }

Decision scale_of(double scale) {
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5) return {scale, exponent - 1, false, {}};
    return {scale, std::nullopt, false, {}};
}

std::optional<int> common_exponent(std::span<const double> scales) {
    const bool one = !scales.empty() && std::all_of(scales.begin(), scales.end(),
                                                    [&](double s) { return s == scales[0]; });
    return one ? scale_of(scales[0]).exponent : std::nullopt;
}

std::string Scheme::grid_name() const {
    if (const auto* f = std::get_if<FloatScheme>(&kind)) return f->grid.format.name();
    const auto* t = std::get_if<TensorScheme>(&kind);
    return t != nullptr ? t->grid : "hybrid";
}

const Transport& Scheme::transport() const {
    static const Transport none;
    if (const auto* f = std::get_if<FloatScheme>(&kind)) return f->transport;
    const auto* t = std::get_if<TensorScheme>(&kind);
    return t != nullptr ? t->transport : none;
}

bool Scheme::keeps_state() const {
    if (const auto* f = std::get_if<FloatScheme>(&kind)) return f->keeps_state;
    const auto* t = std::get_if<TensorScheme>(&kind);
    return t != nullptr && t->keeps_state;
}

std::vector<std::string> Scheme::needs() const {
    const auto* t = std::get_if<TensorScheme>(&kind);
    return t != nullptr ? t->needs : std::vector<std::string>{};
}

}  // namespace apscope::detail
