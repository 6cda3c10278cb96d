// The second reference: a cast to any format by search among the format's values.
//
// Every fp32 number is an integer multiple of 2^-149, and every fp64 number is a multiple of
// 2^-1074, so integers in these units represent x and the values of the format exactly. Values
// increase with their codes, so a bisection of the codes gives the two neighbours of x, and one of
// the two is chosen. This code uses no exponents, quanta or kept bits, so it cannot share a mistake
// of the MPFR oracle.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "core/float_format.h"
#include "core/projection.h"

namespace apscope::detail::oracle {

// A magnitude as an integer, in units of Real's smallest number. The type is wide enough for a
// product with 2^64, as stochastic rounding needs; an operation throws an exception if the type
// cannot represent its result.
namespace mp = boost::multiprecision;
template <unsigned bits>
using CheckedInteger =
    mp::number<mp::cpp_int_backend<bits, bits, mp::unsigned_magnitude, mp::checked, void>>;
template <class Real>
using Magnitude =
    std::conditional_t<std::is_same_v<Real, float>, CheckedInteger<512>, CheckedInteger<2304>>;

template <class Real>
Magnitude<Real> to_magnitude(Real x);  // converts |x|, x finite
// Throws std::logic_error if Real cannot represent the magnitude.
template <class Real>
Real to_real(const Magnitude<Real>& magnitude);

template <class Real>
class BasicRationalOracle {
public:
    // Throws std::invalid_argument if the format does not support the projection.
    BasicRationalOracle(const FloatFormat& format, const Projection& projection);

    // Rounds x to the format; `random` is as for MpfrOracle.
    Real project(Real x, std::uint64_t random) const;
    // Sets results[i] to x rounded with the random word words[i]; one search gives the neighbours
    // of x for all words.
    void project(Real x, std::span<const std::uint64_t> words, std::span<Real> results) const;

    struct Neighbours {
        Magnitude<Real> lower, upper;   // lower <= |x| < upper
        std::uint64_t lower_code = 0;   // may be above the largest finite code
        bool below_the_lowest = false;  // lower is a 0 that the format does not have
    };
    Neighbours neighbours(Real x) const;

    // The number that a code with its sign bit stands for: a value, an infinity or a NaN. In a
    // format with a single zero and no NaN at the code of -0, that code is +0. Without
    // keep_payload, every NaN is the canonical NaN. With keep_payload, a NaN has the sign of its
    // code if there are NaN codes of both signs, and the payload of its code if the format has all
    // the NaN codes of IEEE 754.
    Real decode(std::uint64_t code) const;

private:
    Magnitude<Real> value(std::uint64_t code) const;
    std::optional<Real> special(Real x) const;  // the result for x not between two neighbours
    Real out_of_range(bool negative, bool infinite_input) const;
    Real nan(bool negative, std::uint64_t payload, int payload_bits) const;
    bool takes_upper(const Neighbours& n, const Magnitude<Real>& magnitude, bool negative,
                     std::uint64_t random) const;

    FloatFormat format_;
    Projection projection_;
    std::uint64_t last_code_;  // a code whose value is above every number of Real
    Magnitude<Real> smallest_normal_, largest_;
};

using RationalOracle = BasicRationalOracle<float>;

}  // namespace apscope::detail::oracle
