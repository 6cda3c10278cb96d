// The first truth: a cast to any format by MPFR and plain decisions, slow and obvious.
//
// MPFR supplies exact numbers and exact comparisons, never a rounding to the format: it has no
// ties away, no round to odd and no stochastic rounding, and its own subnormal handling is easy to
// misuse. A number enters as MPFR's truncation (MPFR_RNDZ) and a flag that says whether something
// was cut off, which is enough for every mode when the truncation keeps N + 2 bits more than the
// format. Nothing here shares code with core's rounding rule: the two must agree by themselves.
#pragma once

#include <mpfr.h>

#include <cstdint>

#include "core/float_format.h"
#include "core/projection.h"

namespace apscope::oracle {

class MpfrOracle {
public:
    // Throws std::invalid_argument if the format cannot do what the projection asks.
    MpfrOracle(const FloatFormat& format, const Projection& projection);
    ~MpfrOracle();
    MpfrOracle(const MpfrOracle&) = delete;
    MpfrOracle& operator=(const MpfrOracle&) = delete;

    // x as the format holds it. `random` carries the N random bits of stochastic rounding in its
    // top bits; the other modes ignore it.
    float project(float x, std::uint64_t random);
    // The same for a real number whose truncation towards zero is `truncated`; `inexact` says that
    // the number's magnitude is larger than that. Needs precision m + N + 3 or more.
    float project(mpfr_srcptr truncated, bool inexact, std::uint64_t random);
    // floor(eta 2^N) of |x|, eta the fraction of the step between x's two neighbours that rounding
    // towards zero discards: x rounds away from zero for the last floor(eta 2^N) random integers.
    std::uint64_t discarded(float x);

private:
    struct Step {
        bool lower_is_odd;
        bool exact;             // |x| is the lower neighbour itself
        int against_half;       // |x| against the midpoint: -1, 0, 1
        std::uint64_t discarded;  // floor(eta 2^N), for stochastic rounding only
    };
    // Sets lower_ and upper_ to the neighbours of magnitude_, with no upper limit to the exponent.
    Step bracket(bool inexact);
    bool rounds_away(const Step& step, bool negative, std::uint64_t random) const;
    float overflowed(bool negative, bool infinite_input) const;
    float below_an_unsigned_format(bool infinite_input) const;
    float to_float(mpfr_srcptr value, bool negative) const;
    void set_to_code(mpfr_ptr value, std::uint64_t code) const;

    FloatFormat format_;
    Projection projection_;
    bool has_gap_ = false;  // one step near zero is wider than its neighbours
    bool gap_lower_is_odd_ = false;
    mpfr_t gap_lower_, gap_upper_, smallest_, largest_, magnitude_, lower_, upper_, scratch_, width_;
};

}  // namespace apscope::oracle
