// What a GPU thread does, run here on the CPU: group by group it gives what the array path gives.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cuda/quantize_group.h"
#include "emulation/quantize.h"

namespace apscope {
namespace {

// The edges of every binade, subnormals, infinities and NaNs, and random bits between.
std::vector<float> inputs() {
    std::vector<float> values;
    for (std::uint32_t top = 0; top < 1 << 16; ++top) {
        const std::uint32_t low = philox({{top, 0, 0, 0}}, {1, 2}).word[0] & 0xFFFF;
        values.push_back(std::bit_cast<float>(top << 16));
        values.push_back(std::bit_cast<float>(top << 16 | low));
    }
    return values;
}

void expect_groups_equal_the_array(const FloatFormat& format, const Projection& projection, std::size_t count, std::uint64_t first) {
    constexpr std::uint64_t seed = 7;
    static const std::vector<float> all = inputs();
    const std::span in = std::span(all).first(count);
    constexpr float untouched = 12345;
    std::vector<float> expected(count), out(count + 1, untouched);
    quantize(in, expected, format, projection, {seed, first, {}});
    const QuantizeArguments arguments{in.data(), out.data(), count, first, make_cast<float>(format, projection),
                                      array_stream(seed, projection.drawn_bits())};
    dispatch(projection.rounding, [&]<RoundingMode M>() {
        for (std::uint64_t g = group_count<M>(arguments); g-- > 0;) quantize_group<M>(arguments, g);  // any order
    });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        wrong += std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(expected[i]);
    }
    EXPECT_EQ(wrong, 0u) << format.name() << " " << to_string(projection.rounding) << " random_bits=" << projection.random_bits
                         << " first=" << first << " count=" << count;
    EXPECT_EQ(out[count], untouched);
}

TEST(CudaRule, EveryNamedFormatAndModeEqualsTheArrayPath) {
    for (const NamedFormat& named : named_formats()) {
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            if (!named.format.fits_fp32()) continue;
            Projection projection;
            projection.rounding = static_cast<RoundingMode>(mode);
            expect_groups_equal_the_array(named.format, projection, inputs().size(), 0);
        }
    }
}

TEST(CudaRule, StochasticGroupsCutAtBothEndsDrawTheSameWords) {
    const FloatFormat format = parse_format("e4m3");
    for (const int random_bits : {1, 8, 16, 17, 32, 33, 64}) {
        const Projection projection{RoundingMode::stochastic, Overflow::ieee, random_bits};
        for (const std::uint64_t first : {0u, 1u, 5u, 8u, 1021u}) {
            for (const std::size_t count : {0u, 1u, 2u, 7u, 8u, 9u, 4099u}) {
                expect_groups_equal_the_array(format, projection, count, first);
            }
        }
        expect_groups_equal_the_array(format, projection, 1000, (std::uint64_t{1} << 40) + 3);
    }
}

}  // namespace
}  // namespace apscope
