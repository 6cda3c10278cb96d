#include "emulation/arithmetic/value_range.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/bits.h"
#include "core/rounding.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// The data of one pass over an array: the bitwise or of all fractions, the bits of the largest
// finite magnitude, and the smallest exponent of a last significant bit (plus 277, to be positive).
struct Collected {
    std::uint32_t fractions = 0, largest = 0;
    std::int32_t last_bit = 1 << 20;
};

struct CollectRange {
    static APSCOPE_INLINE void run(const float* values, std::size_t count, Collected* collected) {
        std::int32_t fractions = 0, largest = 0, last_bit = 1 << 20;
        for (std::size_t i = 0; i < count; ++i) {
            const std::int32_t bits = bits_cast<std::int32_t>(values[i]) & 0x7FFFFFFF;
            // The mask sets infinities and NaNs to 0. g++ would not vectorise a selection here,
            // because the maximum below uses the result.
            const std::int32_t magnitude = bits & -static_cast<std::int32_t>(bits < 0x7F800000),
                               fraction = magnitude & 0x007FFFFF;
            const std::int32_t significand = fraction | (magnitude > 0x007FFFFF ? 0x00800000 : 0);
            // A single bit is an exact fp32 number, whose exponent is the place of the bit.
            const std::int32_t place =
                bits_cast<std::int32_t>(static_cast<float>(significand & -significand)) >> 23;
            const std::int32_t field = magnitude >> 23, exponent = place + (field > 1 ? field : 1);
            const std::int32_t seen = magnitude > 0 ? exponent : 1 << 20;
            fractions |= fraction;
            largest = magnitude > largest ? magnitude : largest;
            last_bit = seen < last_bit ? seen : last_bit;
        }
        *collected = {static_cast<std::uint32_t>(fractions), static_cast<std::uint32_t>(largest),
                      last_bit};
    }
};

}  // namespace

ValueRange range_of(const FloatFormat& f) {
    const int emin = f.subnormals ? std::min(f.subnormal_exponent, f.emin()) : f.emin();
    return {f.precision(), emin - f.mantissa_bits, std::max(f.emax(), emin)};
}

ValueRange range_of(std::span<const float> values) {
    Collected all;
    simd::run<CollectRange>(values.data(), values.size(), &all);
    if (all.largest == 0) return {};
    const int precision = all.fractions == 0 ? 1 : 24 - std::countr_zero(all.fractions);
    return {precision, all.last_bit - 127 - 150, exponent_of<float>(all.largest)};
}

ValueRange product_range(const ValueRange& a, const ValueRange& b) {
    if (a.only_zeros() || b.only_zeros()) return {};
    return {a.precision + b.precision, a.quantum + b.quantum, a.top + b.top + 1};
}

ValueRange union_range(const ValueRange& a, const ValueRange& b) {
    return {std::max(a.precision, b.precision), std::min(a.quantum, b.quantum),
            std::max(a.top, b.top)};
}

bool holds(const Hardware& h, const ValueRange& v) {
    return v.only_zeros() ||
           (v.precision <= h.precision && v.quantum >= h.quantum && v.top <= h.top);
}

bool sums_are_exact(const Hardware& h, const ValueRange& v) {
    return v.only_zeros() ||
           (v.top + 2 - v.quantum <= h.precision && v.quantum >= h.quantum && v.top + 1 <= h.top);
}

bool sum_rounds_twice_safely(const Hardware& h, const ValueRange& v, int precision, int quantum) {
    return 2 * precision + 1 <= h.precision && v.precision <= precision && v.quantum >= quantum &&
           quantum >= h.quantum;
}

bool sum_to_odd_rounds_safely(const Hardware& h, const ValueRange& format) {
    return format.precision + 2 <= h.precision && format.quantum - 2 >= h.quantum;
}

bool product_rounds_twice_safely(const Hardware& h, const ValueRange& a, const ValueRange& b,
                                 int quantum) {
    return a.precision + b.precision <= h.precision &&
           h.quantum <= quantum - (a.precision + b.precision);
}

}  // namespace apscope::detail
