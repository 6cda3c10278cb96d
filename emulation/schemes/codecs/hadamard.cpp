#include "emulation/schemes/codecs/hadamard.h"

#include <cmath>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Elements `half` apart become their sum and their difference. A half known here keeps short loops vector code.
template <std::size_t Half>
struct Butterflies {
    static APSCOPE_INLINE void run(double* x, std::size_t n, std::size_t given) {
        const std::size_t half = Half == 0 ? given : Half;
        for (std::size_t begin = 0; begin < n; begin += 2 * half) {
            double *low = x + begin, *high = low + half;
#pragma GCC ivdep  // the halves lie beside each other
            for (std::size_t i = 0; i < half; ++i) {
                const double a = low[i], b = high[i];
                low[i] = a + b;
                high[i] = a - b;
            }
        }
    }
};

struct Multiply {
    static APSCOPE_INLINE void run(double* x, std::size_t n, double factor) {
        for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
    }
};

}  // namespace

void hadamard(std::span<double> x, std::size_t length) {
    double* values = x.data();
    for (std::size_t half = 1; half < length; half *= 2) {
        switch (half) {
            case 1: simd::run<Butterflies<1>>(values, x.size(), half); break;
            case 2: simd::run<Butterflies<2>>(values, x.size(), half); break;
            case 4: simd::run<Butterflies<4>>(values, x.size(), half); break;
            case 8: simd::run<Butterflies<8>>(values, x.size(), half); break;
            default: simd::run<Butterflies<0>>(values, x.size(), half);
        }
    }
    simd::run<Multiply>(values, x.size(), 1.0 / std::sqrt(static_cast<double>(length)));
}

}  // namespace apscope::detail
