// A reference for the casts, slow and obvious: MPFR computes exactly, and decision.h picks the
// neighbour. rational_oracle.h is a second reference.
//
// MPFR supplies exact numbers and exact comparisons, never a rounding to the format: it has no ties
// away, no round to odd and no stochastic rounding, and its own subnormal handling is easy to
// misuse. A number is stored as MPFR's truncation (MPFR_RNDZ) and a flag that says whether any
// digit was cut off. With N random bits, this is enough for every mode if the truncation has N + 2
// bits more than the format. The oracle shares no code with the rounding rule of core/rounding.h,
// so a mistake of one does not repeat in the other.
#pragma once

#include <mpfr.h>

#include <string>

#include <cstdint>

#include "core/float_format.h"
#include "core/projection.h"

namespace apscope::detail::oracle {

std::string version_of_mpfr();  // version of the library in use

class MpfrOracle {
public:
    // The largest precision, in bits, of a number for project().
    static constexpr mpfr_prec_t most_precision = 192;
    __extension__ using Count = unsigned __int128;

    // Throws std::invalid_argument if the format does not support the projection.
    MpfrOracle(const FloatFormat& format, const Projection& projection);
    ~MpfrOracle();
    MpfrOracle(const MpfrOracle&) = delete;
    MpfrOracle& operator=(const MpfrOracle&) = delete;

    // Rounds x to the format. `random` has the N random bits of stochastic rounding in its top
    // bits; for stochastic_exact it is the first word of the random number, whose further words are
    // zeros; the other modes ignore it. The type of x must be able to represent every value of the
    // format.
    float project(float x, std::uint64_t random);
    double project(double x, std::uint64_t random);
    // Rounds a real number whose truncation towards zero is `truncated`; `inexact` says that the
    // truncation cut off nonzero digits. The truncation has a precision of at least m + N + 3
    // (N = 64 for stochastic_exact) and at most most_precision. A NaN gives the canonical NaN.
    double project(mpfr_srcptr truncated, bool inexact, std::uint64_t random);
    // The number of random integers with which |x| rounds away from zero. They are the largest of
    // the 2^N integers; for stochastic_exact, they are the smallest of the 2^64 words.
    Count up_count(double x);

private:
    struct Step {
        bool lower_is_odd;
        bool exact;        // the magnitude is the lower neighbour itself
        int against_half;  // sign of magnitude - midpoint; deterministic modes only
        Count up_count;    // stochastic modes only
    };
    // Sets lower_ and upper_ to the neighbours of magnitude_, with no upper limit to the exponent.
    Step bracket(bool inexact);
    Count count_of(bool inexact);
    bool rounds_away(const Step& step, bool negative, std::uint64_t random) const;
    double overflowed(bool negative, bool infinite_input) const;
    double below_an_unsigned_format(bool infinite_input) const;
    double to_double(mpfr_srcptr value, bool negative) const;
    void set_to_code(mpfr_ptr value, std::uint64_t code) const;

    FloatFormat format_;
    Projection projection_;
    bool has_gap_ = false;  // one step near zero is wider than the steps beside it
    bool gap_lower_is_odd_ = false;
    mpfr_t gap_lower_, gap_upper_, smallest_, smallest_normal_, largest_, magnitude_, lower_,
        upper_, scratch_, width_;
};

}  // namespace apscope::detail::oracle
