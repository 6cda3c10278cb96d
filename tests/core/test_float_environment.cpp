// Entry points give the same bits in any float environment of the caller, and restore it.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <vector>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "core/float_environment.h"
#include "core/named_formats.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/cast/quantize.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

// All results of an array call, as bits.
std::vector<std::uint32_t> results() {
    std::vector<float> x;
    for (std::uint32_t bits = 1; bits < 0x7F800000; bits = bits * 2 + 12345)
        x.push_back(bits_cast<float>(bits));
    std::vector<std::uint32_t> all;
    const auto keep = [&](const std::vector<float>& values) {
        for (const float v : values) all.push_back(bits_cast<std::uint32_t>(v));
    };
    std::vector<float> y(x.size());
    // The third has only fp32 subnormals, the fourth a gap that ends at one.
    for (const char* name : {"bf16", "fp32", "e2m3b140", "e2m3finiteb140nosub", "e4m3"}) {
        const FloatFormat format = parse_format(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            const Projection projection{static_cast<RoundingMode>(mode), Overflow::ieee, 32};
            quantize(x, y, format, projection);
            keep(y);
        }
        std::vector<double> sum(x.size() / 2);
        all_reduce(std::span(x).first(sum.size() * 2), 2, sum, format,
                   {parse_topology("sequential"), {}, {}, {}, true, 0, 2});
        narrow(sum, std::span(y).first(sum.size()));
        keep(y);
    }
    return all;
}

}  // namespace

TEST(FloatEnvironment, TheCallersRoundingChangesNothingAndStays) {
    const std::vector<std::uint32_t> expected = results();
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        const std::vector<std::uint32_t> got = results();
        const int left = std::fegetround();
        std::fesetround(FE_TONEAREST);
        EXPECT_EQ(left, mode);
        EXPECT_TRUE(got == expected) << mode;
    }
}

#if defined(__SSE2__)
TEST(FloatEnvironment, FlushedSubnormalsChangeNothingAndStayFlushed) {
    const std::vector<std::uint32_t> expected = results();
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);  // flush results, read subnormals as zero
    const std::vector<std::uint32_t> got = results();
    const unsigned left = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(left & 0x8040u, 0x8040u);
    EXPECT_TRUE(got == expected);
}

TEST(FloatEnvironment, ExceptionsThatTheCallerTrapsDoNotTrapInside) {
    const std::vector<std::uint32_t> expected = results();
    const unsigned before = _mm_getcsr();
    unsigned inside = 0, after = 0;
    {
        _mm_setcsr(before & ~0x1F80u);  // every exception traps
        const FloatEnvironment environment;
        inside = _mm_getcsr();
        EXPECT_TRUE(results() == expected);
    }
    after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(inside, 0x1F80u);
    EXPECT_EQ(after & 0x1F80u, 0u);
}

TEST(FloatEnvironment, TheOtherControlWordIsSetToo) {
    std::fesetround(FE_UPWARD);  // of both
    int inside = 0;
    {
        const FloatEnvironment environment;
        inside = std::fegetround();  // the C library reads the x87's control word
    }
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(inside, FE_TONEAREST);
    EXPECT_EQ(after, FE_UPWARD);
}
#endif
