#include "core/projection.h"

#include <array>
#include <stdexcept>

#include "core/float_format.h"

namespace apscope {

namespace {

constexpr std::array<std::string_view, rounding_mode_count> rounding_names = {
    "ties_to_even", "ties_to_away", "toward_zero", "toward_positive", "toward_negative", "to_odd", "stochastic"};
constexpr std::array<std::string_view, overflow_count> overflow_names = {"ieee", "saturate", "infinity", "nan"};

template <class Enum, std::size_t N>
Enum parse(std::string_view name, const std::array<std::string_view, N>& names, const char* what) {
    std::string all;
    for (std::size_t i = 0; i < N; ++i) {
        if (names[i] == name) return static_cast<Enum>(i);
        all += (i ? ", " : "") + std::string(names[i]);
    }
    throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(name) + "'; use one of " + all);
}

}  // namespace

std::string_view to_string(RoundingMode mode) { return rounding_names[static_cast<std::size_t>(mode)]; }
std::string_view to_string(Overflow overflow) { return overflow_names[static_cast<std::size_t>(overflow)]; }
RoundingMode parse_rounding(std::string_view name) { return parse<RoundingMode>(name, rounding_names, "rounding"); }
Overflow parse_overflow(std::string_view name) { return parse<Overflow>(name, overflow_names, "overflow"); }

void validate(const Projection& projection, const FloatFormat& format) {
    if (projection.random_bits < 1 || projection.random_bits > 64) {
        throw std::invalid_argument("random_bits=" + std::to_string(projection.random_bits) + " is not between 1 and 64");
    }
    if (projection.overflow == Overflow::infinity && !format.has_infinity) {
        throw std::invalid_argument("overflow='infinity' needs a format with infinity, which " + format.name() +
                                    " is not; use 'saturate' or 'ieee'");
    }
    if (projection.overflow == Overflow::nan && !format.has_nan()) {
        throw std::invalid_argument("overflow='nan' needs a format with NaN, which " + format.name() +
                                    " is not; use 'saturate' or 'ieee'");
    }
}

}  // namespace apscope
