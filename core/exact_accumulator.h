// ExactAccumulator: a fixed-point number wide enough for any sum of products of fp32 numbers, so that
// a sum is exact, independent of order, and rounded once at its end.
//
// Bit 0 weighs 2^-400; the least bit of a product's fp64 significand weighs 2^-350, its leading bit
// at most 2^255. Digits of 32 bits lie in signed 64-bit limbs, whose upper halves collect carries.
#pragma once

#include <cstdint>

#include "core/exact_sum.h"

namespace apscope {

// A nonzero wide number rounded to odd to 53 bits.
APSCOPE_HD double wide_to_odd(const WideSum& w) {
    using Wide = unsigned __int128;
    const std::uint64_t top = static_cast<std::uint64_t>(w.significand >> 64);
    const int leading = top != 0 ? 127 - __builtin_clzll(top) : 63 - __builtin_clzll(static_cast<std::uint64_t>(w.significand));
    const int drop = leading > 52 ? leading - 52 : 0;
    const std::uint64_t sticky = (w.significand & ((Wide{1} << drop) - 1)) != 0 ? 1 : 0;
    const double magnitude = static_cast<double>(static_cast<std::uint64_t>(w.significand >> drop) | sticky) *
                             bits_cast<double>(static_cast<std::uint64_t>(w.unit + drop + 1023) << 52);
    return w.negative ? -magnitude : magnitude;
}

class ExactAccumulator {
public:
    // x is 0, infinite, NaN or a product of two fp32 numbers.
    void add(double x) {
        const std::uint64_t bits = bits_cast<std::uint64_t>(x);
        const bool negative = bits >> 63 != 0;
        const int field = static_cast<int>(bits >> 52 & 0x7FF);
        if (field == 0 || field == 0x7FF) {
            // A sum of zeros of one sign keeps it; a sum of infinities of both is NaN, as fp64 has it.
            (field == 0 ? (negative ? minus_zero_ : plus_zero_) : not_finite_) = true;
            if (field != 0) special_ += x;
            return;
        }
        const std::uint64_t significand = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
        const int position = field - 1023 - 52 + origin;
        const auto digits = static_cast<unsigned __int128>(significand) << (position & 31);
        std::int64_t* limb = limbs_ + (position >> 5);
        const std::int64_t sign = negative ? -1 : 1;
        for (int i = 0; i < 3; ++i) limb[i] += sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(digits >> (32 * i)));
        nonzero_ = true;
        if (++since_carry_ == 1 << 30) carry();
    }

    bool finite() const { return !not_finite_; }
    double special() const { return special_; }
    // The sum, with 95 bits or more, the last sticky; significand 0 if it is zero.
    WideSum total() {
        carry();
        const bool negative = limbs_[limb_count - 1] < 0;
        if (negative) {
            for (std::int64_t& limb : limbs_) limb = -limb;
            carry();
        }
        int high = limb_count - 1;
        while (high > 0 && limbs_[high] == 0) --high;
        unsigned __int128 significand = 0;
        for (int i = high; i > high - 4; --i) significand = significand << 32 | static_cast<std::uint64_t>(i >= 0 ? limbs_[i] : 0);
        bool sticky = (significand & 3) != 0;
        for (int i = high - 4; i >= 0; --i) sticky |= limbs_[i] != 0;
        if (negative) {
            for (std::int64_t& limb : limbs_) limb = -limb;
        }
        return {significand >> 2 | (sticky ? 1 : 0), 32 * (high - 3) - origin + 2, negative};
    }
    // The sign of an exact zero (IEEE 754 6.3): that of zeros of one sign, else by direction.
    double zero(bool toward_negative) const {
        if (!nonzero_ && plus_zero_ != minus_zero_) return minus_zero_ ? -0.0 : 0.0;
        return toward_negative && (nonzero_ || minus_zero_) ? -0.0 : 0.0;
    }

private:
    // Leaves every digit in [0, 2^32); the last limb carries the sign.
    void carry() {
        for (int i = 0; i + 1 < limb_count; ++i) {
            const std::int64_t over = limbs_[i] >> 32;
            limbs_[i] -= over * (std::int64_t{1} << 32);
            limbs_[i + 1] += over;
        }
        since_carry_ = 0;
    }

    static constexpr int origin = 400, limb_count = 24;  // up to 2^367: 2^111 products
    std::int64_t limbs_[limb_count] = {};
    int since_carry_ = 0;
    bool nonzero_ = false, plus_zero_ = false, minus_zero_ = false, not_finite_ = false;
    double special_ = 0;
};

}  // namespace apscope
