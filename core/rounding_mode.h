// The rounding modes: their names and synonyms, and the direction in which each rounds. This file
// is the only list of the modes. A new mode that rounds to nearest needs lines in this file only,
// because every loop takes the direction of a tie from tie_goes_up().
#pragma once

#include <array>
#include <string_view>

#include "host_device.h"

namespace apscope {

enum class RoundingMode {
    ties_to_even,     // nearest, ties to the even significand (IEEE 754 roundTiesToEven)
    ties_to_away,     // nearest, ties to the larger magnitude (roundTiesToAway)
    ties_to_zero,     // nearest, ties to the smaller magnitude
    toward_zero,      // truncate (roundTowardZero)
    toward_positive,  // up (roundTowardPositive)
    toward_negative,  // down (roundTowardNegative)
    away_from_zero,   // inexact: the neighbour with the larger magnitude
    to_odd,           // inexact: the neighbour with the odd significand
    // Stochastic modes take the larger magnitude with a probability that depends on eta, the
    // discarded fraction. With a random integer R of N bits, the larger magnitude is taken if count
    // + R >= 2^N; count is
    stochastic,        //   floor(eta 2^N)                    P3109 StochasticA
    stochastic_b,      //   floor(eta 2^N + 1/2)              P3109 StochasticB
    stochastic_c,      //   eta 2^N to nearest, ties to even  P3109 StochasticC
    stochastic_equal,  //   2^(N-1) if eta is not 0: both neighbours equally likely
    stochastic_exact,  // taken if U < eta, U uniform in [0, 1) with as many bits as needed
};

APSCOPE_HD constexpr bool is_stochastic(RoundingMode mode) {
    return mode >= RoundingMode::stochastic;
}

namespace detail {

struct RoundingName {
    RoundingMode mode;
    std::string_view name;
    // Other names, folded (lower case, without _ and -), each between spaces: the names in RISC-V,
    // IEEE 754, P3109, MPFR, C and NumPy, and other common names.
    std::string_view synonyms = "";
};

// The names of the modes, in the order of RoundingMode.
inline constexpr auto rounding_names = std::to_array<RoundingName>({
    {RoundingMode::ties_to_even, "ties_to_even",
     " rne roundtiestoeven nearesttiestoeven nearesteven roundnearesteven roundtonearesteven"
     " halfeven halftoeven "},
    {RoundingMode::ties_to_away, "ties_to_away",
     " rna rmm roundtiestoaway nearesttiestoaway nearestaway halfaway halfawayfromzero "},
    {RoundingMode::ties_to_zero, "ties_to_zero"},
    {RoundingMode::toward_zero, "toward_zero",
     " rtz rndz roundtowardzero towardszero truncate trunc "},
    {RoundingMode::toward_positive, "toward_positive",
     " rup rndu roundtowardpositive towardinfinity ceil ceiling "},
    {RoundingMode::toward_negative, "toward_negative", " rdn rndd roundtowardnegative floor "},
    {RoundingMode::away_from_zero, "away_from_zero"},
    {RoundingMode::to_odd, "to_odd", " rto roundtoodd "},
    {RoundingMode::stochastic, "stochastic", " sr stochastica stochasticrounding "},
    {RoundingMode::stochastic_b, "stochastic_b"},
    {RoundingMode::stochastic_c, "stochastic_c"},
    {RoundingMode::stochastic_equal, "stochastic_equal"},
    {RoundingMode::stochastic_exact, "stochastic_exact"},
});

}  // namespace detail

inline constexpr int rounding_mode_count = static_cast<int>(detail::rounding_names.size());

namespace detail {

static_assert([] {
    for (int i = 0; i < rounding_mode_count; ++i)
        if (rounding_names[static_cast<std::size_t>(i)].mode != static_cast<RoundingMode>(i))
            return false;
    return static_cast<int>(RoundingMode::stochastic_exact) + 1 == rounding_mode_count;
}());

// True for modes that take the nearer neighbour; these modes differ only at ties.
APSCOPE_HD constexpr bool is_nearest(RoundingMode mode) {
    return mode <= RoundingMode::ties_to_zero;
}

// The direction of a tie in a mode that rounds to nearest: 1 if the neighbour with the larger
// magnitude is taken, else 0. `odd` and `negative` are 1 or 0: the parity of the neighbour with the
// smaller magnitude, and the sign of the number. `one` is 1; loops pass a 1 that is unknown to the
// compiler (Cast::one).
template <RoundingMode M, class Word>
APSCOPE_HD constexpr Word tie_goes_up(Word one, Word odd, [[maybe_unused]] Word negative) {
    static_assert(is_nearest(M));
    if constexpr (M == RoundingMode::ties_to_even) return odd;
    if constexpr (M == RoundingMode::ties_to_away) return one;
    return 0;  // ties_to_zero
}

// True for modes whose result depends on the parity of a neighbour.
APSCOPE_HD constexpr bool asks_parity(RoundingMode mode) {
    return mode == RoundingMode::ties_to_even || mode == RoundingMode::to_odd;
}

// True for modes in which round(-x) is not -round(x).
APSCOPE_HD constexpr bool asks_sign(RoundingMode mode) {
    return mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;
}

// Calls f.template operator()<M>() with the run-time mode as the compile-time M. It may be called
// on the device if f can run there.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class F>
APSCOPE_HD decltype(auto) dispatch(RoundingMode mode, F&& f) {
    switch (mode) {
        case RoundingMode::ties_to_even: return f.template operator()<RoundingMode::ties_to_even>();
        case RoundingMode::ties_to_away: return f.template operator()<RoundingMode::ties_to_away>();
        case RoundingMode::ties_to_zero: return f.template operator()<RoundingMode::ties_to_zero>();
        case RoundingMode::toward_zero: return f.template operator()<RoundingMode::toward_zero>();
        case RoundingMode::toward_positive:
            return f.template operator()<RoundingMode::toward_positive>();
        case RoundingMode::toward_negative:
            return f.template operator()<RoundingMode::toward_negative>();
        case RoundingMode::away_from_zero:
            return f.template operator()<RoundingMode::away_from_zero>();
        case RoundingMode::to_odd: return f.template operator()<RoundingMode::to_odd>();
        case RoundingMode::stochastic: return f.template operator()<RoundingMode::stochastic>();
        case RoundingMode::stochastic_b: return f.template operator()<RoundingMode::stochastic_b>();
        case RoundingMode::stochastic_c: return f.template operator()<RoundingMode::stochastic_c>();
        case RoundingMode::stochastic_equal:
            return f.template operator()<RoundingMode::stochastic_equal>();
        case RoundingMode::stochastic_exact: break;
    }
    return f.template operator()<RoundingMode::stochastic_exact>();
}

}  // namespace detail
}  // namespace apscope
