// Projection: how a real number becomes a number of a format (rounding and overflow).
#pragma once

#include <string>
#include <string_view>

namespace apscope {

enum class RoundingMode {
    ties_to_even,     // nearest, ties to the even significand (IEEE 754 roundTiesToEven)
    ties_to_away,     // nearest, ties to the larger magnitude (roundTiesToAway)
    toward_zero,      // truncate (roundTowardZero)
    toward_positive,  // up (roundTowardPositive)
    toward_negative,  // down (roundTowardNegative)
    to_odd,           // inexact: the neighbour with the odd significand
    stochastic,       // up with probability floor(eta 2^N) / 2^N, eta the discarded fraction
};
inline constexpr int rounding_mode_count = 7;

// What a rounded magnitude above the largest finite value becomes, and what an infinity becomes.
enum class Overflow {
    ieee,      // by direction: infinity, or the largest value when rounding points towards zero;
               // a format without infinity gives NaN, without both the largest value
    saturate,  // the largest finite value, for infinities too
    infinity,  // always infinity
    nan,       // always NaN
};
inline constexpr int overflow_count = 4;

struct Projection {
    RoundingMode rounding = RoundingMode::ties_to_even;
    Overflow overflow = Overflow::ieee;
    int random_bits = 32;  // N of stochastic rounding, 1..64; ignored by the other modes

    friend bool operator==(const Projection&, const Projection&) = default;
};

std::string_view to_string(RoundingMode mode);
std::string_view to_string(Overflow overflow);
RoundingMode parse_rounding(std::string_view name);  // throws std::invalid_argument
Overflow parse_overflow(std::string_view name);      // throws std::invalid_argument

struct FloatFormat;
// Throws std::invalid_argument if `format` cannot do what `projection` asks.
void validate(const Projection& projection, const FloatFormat& format);

}  // namespace apscope
