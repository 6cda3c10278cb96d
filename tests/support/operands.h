// Operands for the tests of arithmetic in registers.
#pragma once

#include <initializer_list>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "emulation/cast/quantize.h"

namespace apscope::detail::test {

using Random = std::mt19937_64;

// Numbers of a format with few exponents, so that sums cancel and tie; extremes: also its ends;
// wild: also some arbitrary fp32 numbers and special values.
inline std::vector<float> operands(Random& random, std::size_t count, const FloatFormat& format,
                                   bool wild, bool extremes = true) {
    std::vector<float> x(count);
    Projection saturating;
    saturating.overflow = Overflow::saturate;
    for (float& v : x) {
        const auto bits = static_cast<std::uint32_t>(random());
        v = std::ldexp(static_cast<float>(static_cast<std::int32_t>(bits)),
                       -31 + static_cast<int>((random() >> 32) % 6));
        if (extremes && random() % 16 == 0)
            v = static_cast<float>(format.smallest_positive()) *
                static_cast<float>(static_cast<int>(random() % 9) - 4);
        if (extremes && random() % 64 == 0)
            v = static_cast<float>(format.largest()) * (bits % 2 != 0 ? 1.0f : -0.5f);
        if (random() % 16 == 0) v = bits % 2 != 0 ? 0.0f : -0.0f;
    }
    if (format.fits_fp32())
        quantize(std::span<const float>(x), std::span<float>(x), format, saturating);
    for (std::size_t i = 0; wild && count > 0 && i < count / 8 + 1; ++i) {
        constexpr float inf = std::numeric_limits<float>::infinity(),
                        nan = std::numeric_limits<float>::quiet_NaN();
        const float any[] = {bits_cast<float>(static_cast<std::uint32_t>(random())),
                             0x1p-149f,
                             -0x1.fffffep127f,
                             0x1.000002p0f,
                             inf,
                             -inf,
                             nan,
                             bits_cast<float>(0xFFFFFFFFu),
                             0x1p-126f};
        x[random() % count] = any[random() % (random() % 4 == 0 ? 9 : 4)];
    }
    return x;
}

// True if all formats support the projection.
inline bool support(const Projection& projection,
                    std::initializer_list<std::optional<FloatFormat>> formats) {
    try {
        for (const std::optional<FloatFormat>& format : formats)
            if (format) validate(projection, *format);
    } catch (const std::invalid_argument&) {
        return false;
    }
    return true;
}

}  // namespace apscope::detail::test
