// Division says where and in which format the sum over W workers is divided by W. Some training
// systems divide in the format of their messages, so that sums do not overflow. Small gradients may
// then round to 0.
//
//      c    = round(S g)                    sent with divide=after: the caller divides
//      c'   = round(c / before)             sent with other values; `before` is at least 1
//      t    = sum of c'                     partial sums rounded as without division
//      mean = round(t / after) / S          before * after = W, except for rounding
//
// A scheme's results are sums over the workers. Therefore a message is decoded as (before c') / S,
// and the result of a reduction is W mean. If a division rounds stochastically, its random words
// are those of stage `wire`, hop 1, before the sum, and of stage `reduce`, hop 0, worker 1, after
// the sum (definitions.md, section 7).
#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"
#include "emulation/arithmetic/row_cast.h"

namespace apscope::detail {

// The divisors of messages (before the sum) and of the sum.
struct Divisors {
    double before = 1.0, after = 1.0;

    bool any() const { return before != 1.0 || after != 1.0; }
};

struct Division {
    enum class Place {
        after,   // the caller divides the sum by W
        before,  // messages are divided by W, as by torch's compress hooks
        sqrt,    // messages are divided by fl32(sqrt(W)), the sum by the remaining factor
        fsdp,    // messages are divided by a power of two near sqrt(W), the sum by the remaining
                 // factor, as by FSDP
        factor,  // messages are divided by `factor`, the sum by W / factor, as with
                 // gradient_predivide_factor of DeepSpeed and Apex
    };
    Place place = Place::after;
    double factor = 1.0;

    // The divisors for this number of workers.
    Divisors of(int workers) const;
    friend bool operator==(const Division&, const Division&) = default;
};

// codes = round(codes / divisor), the quotient in fp64. codes[i] uses the random word of element
// first + i.
void divide_codes(std::span<double> codes, double divisor, const RowCast& cast,
                  const RandomStream& stream, std::uint64_t first);
// Converts a sum of divided codes to the sum of undivided codes: W round(sum / after).
void divide_sum(std::span<double> sum, double after, int workers, const RowCast& accumulator,
                PhiloxKey key, std::uint64_t first);

}  // namespace apscope::detail
