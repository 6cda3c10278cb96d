#include "emulation/schemes/codecs/cpd_cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "core/bits.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// The cast without a branch, so that loops over it become vector code.
APSCOPE_INLINE float cast_one(float x, int exponent_bits, int mantissa_bits) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), sign = bits & 0x80000000,
                        magnitude = bits ^ sign;
    const std::int32_t field = static_cast<std::int32_t>(magnitude >> 23),
                       bias = (1 << (exponent_bits - 1)) - 1, exponent = field - 127;
    const std::int32_t kept_exponent = exponent > 1 - bias ? exponent : 1 - bias,
                       shift = kept_exponent - exponent;
    const std::uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    // The bits that are shifted out here are lost, as in CPD.
    const std::uint32_t left = significand >> static_cast<std::uint32_t>(shift < 31 ? shift : 31);
    const std::uint32_t one = 1, unit = one << static_cast<std::uint32_t>(23 - mantissa_bits),
                        rest = left & (unit - 1), below = left - rest;
    // Above the middle the number is rounded up; in the middle, only if `below` is odd.
    const std::uint32_t odd = (below & unit) != 0 ? 1 : 0, up = 2 * rest + odd > unit ? unit : 0;
    const double power =
        bits_cast<double>(static_cast<std::uint64_t>(kept_exponent - 23 + 1023) << 52);
    const auto size =
        static_cast<float>(static_cast<double>(static_cast<std::int32_t>(below + up)) * power);
    std::uint32_t result = bits_cast<std::uint32_t>(size) | sign;
    result = exponent > bias ? infinity_bits<float> | sign : result;
    result = field == 0 ? std::uint32_t{0} : result;
    return bits_cast<float>((magnitude == 0) | (field == 255) ? bits : result);
}

struct CastRow {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count,
                                   int exponent_bits, int mantissa_bits) {
        for (std::size_t i = 0; i < count; ++i)
            out[i] = cast_one(in[i], exponent_bits, mantissa_bits);
    }
};

}  // namespace

float cpd_cast(float x, int exponent_bits, int mantissa_bits) {
    return cast_one(x, exponent_bits, mantissa_bits);
}

void cpd_cast(std::span<const float> in, std::span<float> out, int exponent_bits,
              int mantissa_bits) {
    simd::run<CastRow>(in.data(), out.data(), in.size(), exponent_bits, mantissa_bits);
}

float cpd_exponent(float x) {
    if (std::isnan(x)) return x;
    if (x == 0.0f) return -std::numeric_limits<float>::infinity();
    if (std::isinf(x)) return x;
    int k = 0;
    const float fraction = std::frexp(x, &k);  // x = 2 fraction 2^(k-1)
    --k;
    // With x = 2^k (1 + j 2^-23), log2 x = k + j 2^-23 / ln 2 - ... Above k, fp32 numbers are
    // 2^(e-23) apart, where e = floor(log2 |k|), or one less if k < 0 and |k| is a power of two. So
    // log2 x rounds to k if j < 2^e (ln 2) / 2. These limits (0.35, 0.69, 1.39, 2.77, 5.55, 11.09,
    // 22.18, 44.36) are not near an integer, so the next term of log2 x does not matter.
    const auto j = static_cast<std::int64_t>(std::ldexp(2.0 * fraction - 1.0, 23));
    if (j == 0) return static_cast<float>(k);
    constexpr int rounds_down_to[] = {0, 0, 1, 2, 5, 11, 22, 44};
    const auto size = static_cast<unsigned>(std::abs(k));
    if (size == 0) return 1.0f;
    const int e = std::bit_width(size) - 1 - (k < 0 && std::has_single_bit(size) ? 1 : 0);
    return static_cast<float>(e >= 0 && j <= rounds_down_to[e] ? k : k + 1);
}

}  // namespace apscope::detail
