// ExactAccumulator: a fixed-point number wide enough for any sum of products, so that a sum is
// exact, independent of order, and rounded once at its end.
//
// Bit 0 weighs 2^-Origin. Digits of 32 bits lie in signed 64-bit limbs, whose upper halves collect
// carries. There are two widths: products of fp32 numbers lie between 2^-298 and 2^256, products of
// fp64 numbers between 2^-2148 and 2^2048; both leave room for a sum of 2^111 products.
#pragma once

#include <cstdint>

#include "core/exact_arithmetic.h"

namespace apscope::detail {

template <int Origin, int LimbCount>
class ExactAccumulator {
public:
    void add(double x) {
        if (x == 0 || !is_finite(x)) return add_special(x);
        const std::uint64_t bits = bits_cast<std::uint64_t>(x);
        const Significand53 s = significand53(bits & ~sign_bit<double>);
        add_digits<3>(s.bits, s.unit, bits >> 63 != 0);
    }
    void add_product(double a, double b) {
        if (is_special<Operation::multiply>(a, b, 0)) return add_special(a * b);
        const std::uint64_t x = bits_cast<std::uint64_t>(a), y = bits_cast<std::uint64_t>(b);
        const Significand53 s = significand53(x & ~sign_bit<double>),
                            t = significand53(y & ~sign_bit<double>);
        add_digits<5>(static_cast<unsigned __int128>(s.bits) * t.bits, s.unit + t.unit,
                      (x ^ y) >> 63 != 0);
    }

    // True if no infinity and no NaN was added; otherwise special() is the sum.
    bool finite() const { return !not_finite_; }
    double special() const { return special_; }
    // The sum. The highest 1 of its significand is bit 125, and its last bit is sticky (see
    // core/wide_number.h); the significand is 0 if the sum is zero.
    WideNumber total() {
        carry();
        const bool negative = limbs_[LimbCount - 1] < 0;
        if (negative) negate();
        int high = LimbCount - 1;
        while (high > 0 && limbs_[high] == 0) --high;
        // `top` has the four highest digits, 32 bits each; the highest has 1 to 32 significant bits
        // unless the sum is 0. `next` has the 32 bits below them.
        unsigned __int128 top = 0;
        for (int i = high; i > high - 4; --i) top = top << 32 | digit(i);
        WideNumber sum{0, 0, negative};
        if (top != 0) {
            const int up = 125 - leading_bit(top);
            const std::uint64_t next = digit(high - 4);
            bool sticky = false;
            if (up >= 0) {
                top = top << up | next >> (32 - up);
                sticky = (next & ((std::uint64_t{1} << (32 - up)) - 1)) != 0;
            } else {
                sticky = (top & ((1u << -up) - 1)) != 0 || next != 0;
                top >>= -up;
            }
            for (int i = high - 5; i >= 0; --i) sticky |= limbs_[i] != 0;
            sum = {top | (sticky ? 1 : 0), 32 * (high - 3) - Origin - up, negative};
        }
        if (negative) negate();
        return sum;
    }
    // The zero to return if the sum is exactly 0, with the sign of IEEE 754 6.3: the sign of the
    // addends if all are zeros of one sign, else the sign for the rounding direction.
    double zero(bool toward_negative) const {
        if (!nonzero_ && plus_zero_ != minus_zero_) return minus_zero_ ? -0.0 : 0.0;
        return toward_negative && (nonzero_ || minus_zero_) ? -0.0 : 0.0;
    }

private:
    // Adds significand * 2^unit. `Digits` is the largest number of 32-bit digits that the
    // significand overlaps: 3 for 53 bits, 5 for 106 bits.
    template <int Digits>
    void add_digits(unsigned __int128 significand, int unit, bool negative) {
        const int bit = unit + Origin, offset = bit & 31;
        std::int64_t* limb = limbs_ + (bit >> 5);
        const std::int64_t sign = negative ? -1 : 1;
        const unsigned __int128 digits = significand << offset;
        for (int i = 0; i < (Digits < 4 ? Digits : 4); ++i) {
            limb[i] +=
                sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(digits >> (32 * i)));
        }
        if constexpr (Digits == 5) {
            if (offset != 0)
                limb[4] += sign * static_cast<std::int64_t>(significand >> (128 - offset));
        }
        nonzero_ = true;
        if (++since_carry_ == 1 << 30) carry();
    }
    // A sum of zeros of one sign keeps the sign; a sum of infinities of both signs is NaN, as in
    // fp64.
    void add_special(double x) {
        if (x == 0) {
            (bits_cast<std::uint64_t>(x) >> 63 != 0 ? minus_zero_ : plus_zero_) = true;
        } else {
            not_finite_ = true;
            special_ += x;
        }
    }
    std::uint64_t digit(int i) const { return i >= 0 ? static_cast<std::uint64_t>(limbs_[i]) : 0; }
    void negate() {
        for (std::int64_t& limb : limbs_) limb = -limb;
        carry();
    }
    // Propagates the carries, so that every limb but the last is in [0, 2^32); the last is signed.
    void carry() {
        for (int i = 0; i + 1 < LimbCount; ++i) {
            const std::int64_t over = limbs_[i] >> 32;
            limbs_[i] -= over * (std::int64_t{1} << 32);
            limbs_[i + 1] += over;
        }
        since_carry_ = 0;
    }

    std::int64_t limbs_[LimbCount] = {};
    int since_carry_ = 0;
    bool nonzero_ = false, plus_zero_ = false, minus_zero_ = false, not_finite_ = false;
    double special_ = 0;
};

// The two origins, 2^-400 and 2^-2272, lie below the units of the smallest significands, which are
// 2^-350 and 2^-2252 after normalisation to 53 and 106 bits. Fp32ProductSum adds fp32 numbers, or
// products of two fp32 numbers, all stored in fp64.
using Fp32ProductSum = ExactAccumulator<400, 24>;
// Adds any fp64 numbers, or products of two fp64 numbers.
using Fp64ProductSum = ExactAccumulator<2272, 139>;

}  // namespace apscope::detail
