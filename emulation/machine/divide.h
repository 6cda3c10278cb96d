// Division of many numbers by one. A division by a power of two is computed as a multiplication by
// the inverse: both round the same exact number, and processors multiply several times as fast. The
// number of workers is often 8, and scales are often powers of two.
#pragma once

#include <cmath>
#include <cstddef>

#include "emulation/machine/simd.h"

namespace apscope::detail {

// True for powers of two whose inverse is a normal number.
inline bool is_power_of_two(double x) {
    int exponent = 0;
    return std::frexp(x, &exponent) == 0.5 && exponent > -1000 && exponent < 1000;
}

// Calls work(quotient), in which quotient(x) returns x / divisor. `work` must be always_inline, as
// `quotient` is, so that both are compiled for the instruction set of the caller.
template <class Work>
APSCOPE_INLINE void divide_by(double divisor, Work&& work) {
    if (is_power_of_two(divisor)) {
        const double inverse = 1.0 / divisor;
        work([inverse](double x) __attribute__((always_inline)) { return x * inverse; });
    } else {
        work([divisor](double x) __attribute__((always_inline)) { return x / divisor; });
    }
}

// A kernel for simd::run() that divides a row by a number.
struct DivideRow {
    static APSCOPE_INLINE void run(double* row, double divisor, std::size_t count) {
        divide_by(divisor, [&](auto quotient) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < count; ++i) row[i] = quotient(row[i]);
        });
    }
};

}  // namespace apscope::detail
