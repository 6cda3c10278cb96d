// The decisions of the deterministic modes, as the standards state them, for both oracles. Each
// oracle computes the neighbours, their parity and the midpoint in its own arithmetic. This file
// shares no code with the rounding rule.
#pragma once

#include <stdexcept>

#include "core/projection.h"

namespace apscope::detail::oracle {

// Returns whether an inexact number takes the neighbour with the larger magnitude. `against_half`
// is the sign of the number's magnitude minus the midpoint of the neighbours' magnitudes.
inline bool takes_upper(RoundingMode mode, int against_half, bool lower_is_odd, bool negative) {
    switch (mode) {
        case RoundingMode::ties_to_even:
            return against_half > 0 || (against_half == 0 && lower_is_odd);
        case RoundingMode::ties_to_away: return against_half >= 0;
        case RoundingMode::ties_to_zero: return against_half > 0;
        case RoundingMode::toward_zero: return false;
        case RoundingMode::toward_positive: return !negative;
        case RoundingMode::toward_negative: return negative;
        case RoundingMode::away_from_zero: return true;
        case RoundingMode::to_odd: return !lower_is_odd;
        default: throw std::logic_error("a mode that draws needs a random number");
    }
}

// Returns whether the mode rounds a number beyond the largest value towards the largest value,
// which is then the result of Overflow::ieee. For a number below the least value of an unsigned
// format, returns whether the mode rounds towards the least value.
inline bool stays_finite(RoundingMode mode, bool negative) {
    return mode == RoundingMode::toward_zero || mode == RoundingMode::to_odd ||
           mode == (negative ? RoundingMode::toward_positive : RoundingMode::toward_negative);
}

}  // namespace apscope::detail::oracle
