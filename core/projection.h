// Projection describes the conversion of a real number to a format: rounding, overflow, underflow,
// NaN.
#pragma once

#include <string>
#include <string_view>

#include "host_device.h"
#include "rounding_mode.h"

namespace apscope {

// The result for a rounded magnitude above the largest finite value, and for an infinity.
enum class Overflow {
    ieee,       // infinity, or the largest value for a finite number that rounds towards zero; NaN
                // if the format has no infinity, and the largest value if it has no NaN either
    saturate,   // the largest finite value, for infinities too (P3109 SatFinite)
    propagate,  // the largest finite value; infinities stay if the format has them (SatPropagate)
    infinity,   // always infinity
    nan,        // always NaN
};
inline constexpr int overflow_count = 5;
// Returns whether a finite number beyond the largest value becomes the largest value.
constexpr bool clamps(Overflow overflow) {
    return overflow == Overflow::saturate || overflow == Overflow::propagate;
}

// The result for magnitudes below the format's smallest normal number. With `gradual`, these
// magnitudes round to zero or to the smallest number if the format has no subnormals.
enum class Underflow {
    gradual,       // subnormal numbers, if the format has them
    flush_result,  // a rounded result below the smallest normal number becomes a zero of its sign
    flush_input,   // an input below the smallest normal number becomes a zero of its sign before
                   // rounding
    flush_both,    // flushes inputs and results; for a cast, the same as flush_input
};
inline constexpr int underflow_count = 4;

struct Projection {
    RoundingMode rounding = RoundingMode::ties_to_even;
    Overflow overflow = Overflow::ieee;
    int random_bits = 32;  // N of stochastic rounding, 1..64; ignored by the other modes
    Underflow underflow = Underflow::gradual;
    // True: a NaN keeps its sign and leading payload bits, made quiet, as far as the format has
    // codes for them. False: every NaN becomes the canonical quiet NaN.
    bool keep_payload = false;

    bool flushes_input() const {
        return underflow == Underflow::flush_input || underflow == Underflow::flush_both;
    }
    bool flushes_result() const {
        return underflow == Underflow::flush_result || underflow == Underflow::flush_both;
    }
    // The number of random bits that a rounding draws.
    int drawn_bits() const { return rounding == RoundingMode::stochastic_exact ? 64 : random_bits; }

    friend bool operator==(const Projection&, const Projection&) = default;
};

std::string_view to_string(RoundingMode mode);
std::string_view to_string(Overflow overflow);
std::string_view to_string(Underflow underflow);
// Parse the names that to_string() returns, and synonyms: for rounding those of rounding_mode.h, in
// upper or lower case and with or without _ and -, as in specs; `saturate_finite` for `saturate`,
// `saturate_propagate` for `propagate`. Any other text throws std::invalid_argument, also
// `nearest`, which does not define the rounding of ties.
RoundingMode parse_rounding(std::string_view name);
Overflow parse_overflow(std::string_view name);
Underflow parse_underflow(std::string_view name);

// Throws std::invalid_argument if the mode is stochastic_exact. Only casts support this mode,
// because it needs all digits of a number, and a quotient or a root has no last digit. `what` names
// the operation.
void require_counted(RoundingMode mode, std::string_view what);

struct FloatFormat;
// Throws std::invalid_argument if `format` does not support `projection`.
void validate(const Projection& projection, const FloatFormat& format);

}  // namespace apscope
