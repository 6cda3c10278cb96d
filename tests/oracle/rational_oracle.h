// The second truth: a cast to any format by search among the format's values.
//
// Every fp32 number, and so every value of every format, is a whole multiple of 2^-149: exact
// rationals over that one denominator are integers. The two neighbours of x are found by bisecting
// the codes, whose values grow with them, and one of the two is chosen. There are no exponents,
// quanta or kept bits here, so that a mistake of the MPFR oracle has no counterpart.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>

#include "core/float_format.h"
#include "core/projection.h"

namespace apscope::oracle {

// A magnitude in units of 2^-149; arithmetic that does not fit throws.
using Magnitude = boost::multiprecision::checked_uint512_t;

Magnitude to_magnitude(float x);      // of |x|, x finite
float to_float(const Magnitude& magnitude);  // throws std::logic_error if fp32 does not hold it

class RationalOracle {
public:
    // Throws std::invalid_argument if the format cannot do what the projection asks.
    RationalOracle(const FloatFormat& format, const Projection& projection);

    // x as the format holds it; `random` as in MpfrOracle.
    float project(float x, std::uint64_t random) const;

    struct Neighbours {
        Magnitude lower, upper;        // lower <= |x| < upper
        std::uint64_t lower_code = 0;  // codes go on above the largest finite one
        bool below_the_lowest = false;  // lower is a 0 that the format does not have
    };
    Neighbours neighbours(float x) const;

    // What a whole code means: a value, an infinity or a NaN. The code of -0 of a format with a
    // single zero and no NaN there is +0.
    float decode(std::uint64_t code) const;

private:
    Magnitude value(std::uint64_t code) const;
    float out_of_range(bool negative, bool infinite_input) const;

    FloatFormat format_;
    Projection projection_;
    std::uint64_t last_code_;  // a code whose value is above every fp32 number
};

}  // namespace apscope::oracle
