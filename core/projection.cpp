#include "core/projection.h"

#include <array>
#include <bit>
#include <cstdint>

#include "core/error.h"
#include "core/float_format.h"
#include "core/limits.h"
#include "core/rounding_words.h"

namespace apscope {

namespace {

constexpr std::array<std::string_view, rounding_mode_count> rounding_words = [] {
    std::array<std::string_view, rounding_mode_count> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = detail::rounding_names[i].name;
    return names;
}();
constexpr std::array<std::string_view, overflow_count> overflow_names = {
    "ieee", "saturate", "propagate", "infinity", "nan"};
constexpr std::array<std::string_view, underflow_count> underflow_names = {
    "gradual", "flush_result", "flush_input", "flush_both"};

template <class Enum, std::size_t N>
Enum parse(std::string_view name, const std::array<std::string_view, N>& names, const char* what) {
    std::string all;
    for (std::size_t i = 0; i < N; ++i) {
        if (names[i] == name) return static_cast<Enum>(i);
        all += (i ? ", " : "") + std::string(names[i]);
    }
    throw error("unknown " + std::string(what) + " '" + detail::limits::clipped(name) +
                "'; use one of " + all);
}

}  // namespace

std::string_view to_string(RoundingMode mode) {
    return rounding_words[static_cast<std::size_t>(mode)];
}
std::string_view to_string(Overflow overflow) {
    return overflow_names[static_cast<std::size_t>(overflow)];
}
std::string_view to_string(Underflow underflow) {
    return underflow_names[static_cast<std::size_t>(underflow)];
}

RoundingMode parse_rounding(std::string_view name) {
    return parse<RoundingMode>(detail::rounding_word(name), rounding_words, "rounding");
}
Overflow parse_overflow(std::string_view name) {
    if (name == "saturate_finite") return Overflow::saturate;
    if (name == "saturate_propagate") return Overflow::propagate;
    return parse<Overflow>(name, overflow_names, "overflow");
}
Underflow parse_underflow(std::string_view name) {
    return parse<Underflow>(name, underflow_names, "underflow");
}

void require_counted(RoundingMode mode, std::string_view what) {
    if (mode != RoundingMode::stochastic_exact) return;
    throw error("rounding='stochastic_exact' is only for quantize and encode, not for " +
                    std::string(what) + "; use 'stochastic' with random_bits=64",
                ErrorKind::unsupported);
}

void validate(const Projection& projection, const FloatFormat& format) {
    const bool integer_count = projection.rounding == RoundingMode::stochastic_b ||
                               projection.rounding == RoundingMode::stochastic_c;
    const int most = integer_count ? 62 : 64;  // rounding the count needs two bits more
    if (projection.random_bits < 1 || projection.random_bits > most) {
        throw error("random_bits=" + std::to_string(projection.random_bits) +
                    " is not between 1 and " + std::to_string(most) +
                    (integer_count
                         ? ", as " + std::string(to_string(projection.rounding)) + " needs"
                         : ""));
    }
    if (projection.overflow == Overflow::infinity && !format.has_infinity) {
        throw error("overflow='infinity' needs a format with infinity, which " + format.name() +
                        " is not; use 'saturate' or 'ieee'",
                    ErrorKind::unsupported);
    }
    if (projection.overflow == Overflow::nan && !format.has_nan()) {
        throw error("overflow='nan' needs a format with NaN, which " + format.name() +
                        " is not; use 'saturate' or 'ieee'",
                    ErrorKind::unsupported);
    }
    // The bits are compared, because the caller's environment may flush subnormal numbers.
    const bool has_normal = std::bit_cast<std::uint64_t>(format.smallest_normal()) != 0;
    if (projection.underflow != Underflow::gradual && !has_normal) {
        throw error("underflow='" + std::string(to_string(projection.underflow)) +
                        "' needs a format with normal numbers, which " + format.name() +
                        " is not; use 'gradual'",
                    ErrorKind::unsupported);
    }
}

}  // namespace apscope
