#include "emulation/schemes/codecs/hadamard.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

// Replaces elements that are `half` apart by their sum and their difference. If `half` is a
// constant, the compiler also makes vector code of short loops.
template <std::size_t Half>
struct Butterflies {
    static APSCOPE_INLINE void run(double* x, std::size_t n, std::size_t half_length) {
        const std::size_t half = Half == 0 ? half_length : Half;
        for (std::size_t begin = 0; begin < n; begin += 2 * half) {
            double *low = x + begin, *high = low + half;
#pragma GCC ivdep  // the halves do not overlap
            for (std::size_t i = 0; i < half; ++i) {
                const double a = low[i], b = high[i];
                low[i] = a + b;
                high[i] = a - b;
            }
        }
    }
};

// Computes the levels with half = 1, 2 and 4. Each level adds a vector, with some signs changed, to
// the same vector with its elements exchanged.
struct WithinEight {
    using Eight [[gnu::vector_size(64)]] = double;

    static APSCOPE_INLINE void run(double* x, std::size_t n) {
        for (std::size_t begin = 0; begin < n; begin += 8) {
            Eight v;
            std::memcpy(&v, x + begin, sizeof v);
            v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6) +
                v * Eight{1, -1, 1, -1, 1, -1, 1, -1};
            v = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5) +
                v * Eight{1, 1, -1, -1, 1, 1, -1, -1};
            v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3) +
                v * Eight{1, 1, 1, 1, -1, -1, -1, -1};
            std::memcpy(x + begin, &v, sizeof v);
        }
    }
};

// Computes the levels with half = n / 8, n / 4 and n / 2, with the same sums and differences, in
// one pass over n numbers. If Last, the results are multiplied by the factor.
template <bool Last>
struct ThreeLevels {
    static APSCOPE_INLINE void run(double* x, std::size_t eighth, double factor) {
        const auto out = [&](double sum) { return Last ? sum * factor : sum; };
#pragma GCC ivdep  // the eighths do not overlap
        for (std::size_t i = 0; i < eighth; ++i) {
            double* at = x + i;
            const double x0 = at[0], x1 = at[eighth], x2 = at[2 * eighth], x3 = at[3 * eighth];
            const double x4 = at[4 * eighth], x5 = at[5 * eighth], x6 = at[6 * eighth],
                         x7 = at[7 * eighth];
            const double a0 = x0 + x1, a1 = x0 - x1, a2 = x2 + x3, a3 = x2 - x3, a4 = x4 + x5,
                         a5 = x4 - x5, a6 = x6 + x7, a7 = x6 - x7;
            const double b0 = a0 + a2, b1 = a1 + a3, b2 = a0 - a2, b3 = a1 - a3, b4 = a4 + a6,
                         b5 = a5 + a7, b6 = a4 - a6, b7 = a5 - a7;
            at[0] = out(b0 + b4);
            at[eighth] = out(b1 + b5);
            at[2 * eighth] = out(b2 + b6);
            at[3 * eighth] = out(b3 + b7);
            at[4 * eighth] = out(b0 - b4);
            at[5 * eighth] = out(b1 - b5);
            at[6 * eighth] = out(b2 - b6);
            at[7 * eighth] = out(b3 - b7);
        }
    }
};

// The number of fp64 numbers for which all levels are computed within the first-level cache.
constexpr std::size_t near = 2048;

// Computes the levels with half < length of `count` numbers; count is a multiple of length.
void levels_up_to(double* x, std::size_t count, std::size_t length) {
    if (length >= 8) simd::run<WithinEight>(x, count);
    for (std::size_t half = length >= 8 ? 8 : 1; half < length; half *= 2) {
        if (half == 8) simd::run<Butterflies<8>>(x, count, half);
        else simd::run<Butterflies<0>>(x, count, half);
    }
}

// Computes all levels of one run of `length` numbers.
template <bool Last>
void all_levels(double* x, std::size_t length, double factor) {
    if (length > near) {
        for (std::size_t part = 0; part < 8; ++part)
            all_levels<false>(x + part * (length / 8), length / 8, factor);
        simd::run<ThreeLevels<Last>>(x, length / 8, factor);
        return;
    }
    levels_up_to(x, length, length);
}

}  // namespace

void hadamard(std::span<double> x, std::size_t length) {
    const double factor = 1.0 / std::sqrt(static_cast<double>(length));
    const std::size_t step = std::max(length, near);
    for (std::size_t first = 0; first < x.size(); first += step) {
        const std::size_t count = std::min(step, x.size() - first);
        double* values = x.data() + first;
        if (length > near) {
            all_levels<true>(values, length, factor);
        } else {
            levels_up_to(values, count, length);
            simd::run<Multiply>(values, count, factor);
        }
    }
}

}  // namespace apscope::detail
