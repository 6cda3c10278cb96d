// Operations in registers against the general path: the same bits for all formats, roundings and
// instruction sets.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/arithmetic/register_arithmetic.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/simd.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

using Random = std::mt19937_64;

const std::vector<std::string> formats = {
    "e4m3",  "e5m2",   "fp16",     "bf16",   "fp32",         "tf32",    "e3m0",
    "e8m1",  "e4m3fn", "e4m3fnuz", "e2m1fn", "binary8p3se",  "e8m14",   "e6m11",
    "e6m21", "e8m21",  "e6m22",    "e8m20",  "hfp8_forward", "e8m0fnu", "fp64"};

// Numbers of a format, of few exponents; among them, if wild, any fp32 numbers and special ones.
std::vector<float> operands(Random& random, std::size_t count, const FloatFormat& format,
                            bool wild) {
    std::vector<float> x(count);
    for (float& v : x) {
        v = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                       -31 + static_cast<int>(random() % 6));
        if (random() % 16 == 0)
            v = static_cast<float>(format.smallest_positive() *
                                   static_cast<double>(static_cast<int>(random() % 9) - 4));
        if (random() % 64 == 0) v = static_cast<float>(format.largest());
        if (random() % 16 == 0) v = random() % 2 != 0 ? 0.0f : -0.0f;
    }
    if (format.fits_fp32()) quantize(std::span<const float>(x), std::span<float>(x), format, {});
    for (std::size_t i = 0; wild && i < count; i += 1 + random() % 8) {
        constexpr float inf = std::numeric_limits<float>::infinity();
        const float any[] = {bits_cast<float>(static_cast<std::uint32_t>(random())),
                             0x1p-149f,
                             0x1.fffffep127f,
                             0x1.000002p0f,
                             inf,
                             -inf,
                             bits_cast<float>(0xFFFFFFFFu),
                             0x1p-126f};
        x[i] = any[random() % 8];
    }
    return x;
}

bool can(const FloatFormat& f, const Projection& p) {
    try {
        validate(p, f);
    } catch (const std::invalid_argument&) {
        return false;
    }
    return f.fits_fp32();
}

class RegisterArithmetic : public testing::Test {
protected:
    ~RegisterArithmetic() override { set_simd_level(best_simd_level()); }
};

}  // namespace

TEST_F(RegisterArithmetic, IsTheGeneralPathForRandomCombinations) {
    Random random(1);
    int served = 0, narrow = 0;
    for (int i = 0; i < 8000; ++i) {
        const FloatFormat format = parse_format(formats[random() % formats.size()]),
                          held = random() % 2 == 0
                                     ? format
                                     : parse_format(formats[random() % formats.size()]);
        Projection projection;
        projection.rounding = random() % 3 == 0 ? RoundingMode::ties_to_even
                                                : static_cast<RoundingMode>(random() % 9);
        projection.overflow = static_cast<Overflow>(random() % overflow_count);
        if (random() % 16 == 0)
            projection.underflow = static_cast<Underflow>(random() % underflow_count);
        if (!can(format, projection)) continue;
        const auto operation = static_cast<Operation>(random() % operation_count);
        const std::size_t n = 1 + random() % (i % 20 == 0 ? 20000 : 700), offset = random() % 3;
        const bool wild = random() % 3 == 0;
        std::vector<float> a = operands(random, n + offset, held, wild),
                           b = operands(random, random() % 8 == 0 ? 1 + offset : n + offset, held,
                                        wild);
        const std::vector<float> c = operands(random, n + offset, held, wild);
        if (random() % 8 == 0 && n > offset)
            a[offset + random() % n] = 0x1.234568p0f;  // one that is not of the format
        set_simd_level(
            static_cast<SimdLevel>(random() % (static_cast<int>(best_simd_level()) + 1)));
        const auto made = RegisterOperation::make(operation, format, projection);
        served += made.has_value();
        narrow += made && made->narrow();
        const std::span<const float> x = std::span(a).subspan(offset),
                                     y = std::span(b).subspan(offset),
                                     z = std::span(c).subspan(offset);
        std::vector<float> wanted(n), got(n);
        arithmetic(operation, x, y, z, std::span<float>(wanted), format, projection, 0, 1, false);
        const std::span<float> out = random() % 2 == 0
                                         ? std::span<float>(got)
                                         : std::span<float>(a).subspan(offset);  // or in place
        arithmetic(operation, x, y, z, out, format, projection, 0,
                   1 + static_cast<int>(random() % 2));
        for (std::size_t k = 0; k < n; ++k) {
            ASSERT_EQ(bits_cast<std::uint32_t>(out[k]), bits_cast<std::uint32_t>(wanted[k]))
                << to_string(operation) << " to " << format.name() << " of " << held.name() << " "
                << to_string(projection.rounding) << " " << to_string(projection.overflow) << " at "
                << to_string(simd_level()) << ": element " << k << " is " << out[k] << ", by rows "
                << wanted[k];
        }
    }
    EXPECT_GT(served, 4000);
    EXPECT_GT(narrow, 500);
}

TEST(RegisterOperationMade, AsksForItsTheoremsConditions) {
    const auto narrow = [](Operation operation, const char* format) {
        const auto made = RegisterOperation::make(operation, parse_format(format), {});
        return made && made->narrow();
    };
    EXPECT_TRUE(narrow(Operation::add, "e4m3") && narrow(Operation::add, "bf16") &&
                narrow(Operation::add, "fp32") && narrow(Operation::add, "tf32"));
    EXPECT_TRUE(narrow(Operation::multiply, "bf16") && narrow(Operation::multiply, "fp16"));
    EXPECT_FALSE(narrow(Operation::multiply,
                        "tf32"));  // products of its subnormal numbers are rounded twice in fp32
    EXPECT_TRUE(narrow(Operation::add, "e8m14") && narrow(Operation::add, "e6m21"));
    EXPECT_FALSE(narrow(Operation::add, "e6m22"));  // 23 + 2 bits
    EXPECT_FALSE(narrow(Operation::add, "e8m22"));  // and 2^-148, of which fp32 has one half
    EXPECT_FALSE(narrow(Operation::fma, "e4m3"));
    EXPECT_FALSE(RegisterOperation::make(Operation::add, parse_format("e8m0fnu"), {}).has_value());
}
