// Sums in registers against the general path, which rounds every exact result by the rule: the same
// bits for all formats, orders, roundings, shapes and instruction sets, with operands that meet,
// and operands that do not meet, each condition of the register path.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/arithmetic/register_sum.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/simd.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

using Random = std::mt19937_64;

// Numbers for the difficult cases of sums: values of a format with few exponents, so that sums
// cancel and tie, and some arbitrary fp32 numbers, special values and extremes.
std::vector<float> operands(Random& random, std::size_t count, const FloatFormat& format, bool wild,
                            bool extremes = true) {
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
    quantize(std::span<const float>(x), std::span<float>(x), format, saturating);
    if (wild && count > 0) {
        constexpr float inf = std::numeric_limits<float>::infinity(),
                        nan = std::numeric_limits<float>::quiet_NaN();
        for (std::size_t i = 0; i < count / 8 + 1; ++i) {
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
    }
    return x;
}

std::string differing(const std::vector<float>& got, const std::vector<float>& wanted) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (bits_cast<std::uint32_t>(got[i]) != bits_cast<std::uint32_t>(wanted[i])) {
            return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", by rows " +
                   std::to_string(wanted[i]);
        }
    }
    return "";
}

// Returns whether all formats support the projection.
bool has_all(const SumOptions& options) {
    try {
        for (const auto& f : {std::optional(options.format), options.accumulate, options.product}) {
            if (f) validate(options.projection, *f);
        }
    } catch (const std::invalid_argument&) {
        return false;
    }
    return true;
}

struct Shape {
    std::size_t batches, rows, terms, columns;
};

// Sums, dots and products by both paths.
void compare(const SumOptions& options, const std::vector<float>& a, const std::vector<float>& b,
             const Shape& s, const std::string& what) {
    SumOptions general = options;
    general.registers = false;
    std::vector<float> got(s.batches * s.rows * s.columns, 7.0f), wanted = got;
    const bool exact_pairs = options.order.kind == SumOrder::Kind::pairwise && !options.product &&
                             options.projection.flushes_input();
    if (!exact_pairs) {
        ordered_matmul<float>(a, b, s.batches, s.rows, s.terms, got, options);
        ordered_matmul<float>(a, b, s.batches, s.rows, s.terms, wanted, general);
        ASSERT_EQ(differing(got, wanted), "") << "matmul " << what;
    }
    const std::size_t n = b.size() / s.terms;
    const std::vector<float> x(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n * s.terms));
    std::vector<float> y(x.rbegin(), x.rend());
    got.assign(n, 7.0f);
    wanted = got;
    ordered_sum<float>(x, s.terms, got, options);
    ordered_sum<float>(x, s.terms, wanted, general);
    ASSERT_EQ(differing(got, wanted), "") << "sum " << what;
    if (exact_pairs) return;
    ordered_dot<float>(x, y, s.terms, got, options);
    ordered_dot<float>(x, y, s.terms, wanted, general);
    ASSERT_EQ(differing(got, wanted), "") << "dot " << what;
}

const std::vector<std::string> formats = {
    "e4m3",  "e5m2",  "fp16",         "bf16",     "fp32",   "tf32",
    "e3m0",  "e8m1",  "e4m3fn",       "e4m3fnuz", "e2m1fn", "binary8p3se",
    "e8m14", "e6m11", "hfp8_forward", "e8m0fnu",  "e8m0fn"};
const std::vector<std::string> orders = {"sequential", "chunked:3", "chunked:64",
                                         "pairwise",   "kahan",     "exact"};

class EveryLevel : public testing::Test {
protected:
    ~EveryLevel() override { set_simd_level(best_simd_level()); }
};
using RegisterSums = EveryLevel;

}  // namespace

TEST_F(RegisterSums, AreTheGeneralPathsForRandomCombinations) {
    Random random(1);
    const auto any = [&](const auto& of) -> const auto& { return of[random() % of.size()]; };
    int served[4] = {};
    for (int i = 0; i < 2500; ++i) {
        SumOptions options;
        options.format = parse_format(any(formats));
        if (random() % 3 == 0) options.accumulate = parse_format(any(formats));
        if (random() % 4 != 0) options.product = parse_format(any(formats));
        options.order = parse_sum_order(any(orders));
        if (options.order.kind == SumOrder::Kind::exact) options.accumulate.reset();
        options.projection.rounding = random() % 2 == 0 ? RoundingMode::ties_to_even
                                                        : static_cast<RoundingMode>(random() % 9);
        options.projection.overflow = static_cast<Overflow>(random() % overflow_count);
        if (random() % 16 == 0)
            options.projection.underflow = static_cast<Underflow>(random() % underflow_count);
        options.threads = 1 + static_cast<int>(random() % 2);
        if (!has_all(options)) continue;
        const FloatFormat held = parse_format(any(formats));
        const Shape s{1 + random() % 2, 1 + random() % 5, 1 + random() % (i % 50 == 0 ? 600 : 40),
                      1 + random() % (i % 10 == 0 ? 140 : 20)};
        const bool wild = random() % 3 == 0;
        const std::vector<float> a = operands(random, s.batches * s.rows * s.terms, held, wild),
                                 b = operands(random, s.batches * s.terms * s.columns, held, wild);
        const auto level =
            static_cast<SimdLevel>(random() % (static_cast<int>(best_simd_level()) + 1));
        set_simd_level(level);
        ++served[static_cast<int>(sum_path(options, true, range_of(a), range_of(b)))];
        const std::string what =
            options.format.name() + " sums " +
            (options.accumulate ? options.accumulate->name() : "") + " products " +
            (options.product ? options.product->name() : "exact") + " of " + held.name() + " " +
            std::string(to_string(options.projection.rounding)) + " " +
            std::string(to_string(options.projection.overflow)) + " order " +
            std::to_string(static_cast<int>(options.order.kind)) + " at " +
            std::string(to_string(level)) + " terms " + std::to_string(s.terms) + " case " +
            std::to_string(i);
        compare(options, a, b, s, what);
        if (HasFatalFailure()) return;
    }
    for (const int count : served) EXPECT_GT(count, 50);  // every path was met
}

// The usual formats with ties to even, many terms, all orders, all instruction sets, on the fp32
// path.
TEST_F(RegisterSums, ServeTheUsualFormatsInFp32) {
    Random random(2);
    const char* usual[][4] = {{"e4m3", "e4m3", "fp16", "fp16"}, {"fp16", "fp16", "fp16", "fp16"},
                              {"bf16", "bf16", "bf16", "bf16"}, {"bf16", "", "fp32", "bf16"},
                              {"e5m2", "e5m2", "e5m2", "e5m2"}, {"fp16", "", "fp32", "fp16"},
                              {"fp32", "fp32", "fp32", "fp32"}, {"e4m3", "", "fp32", "e4m3"},
                              {"e4m3", "e4m3", "e4m3", "e4m3"}};
    for (const auto& [held, product, sum, result] : usual) {
        for (const std::string& order : orders) {
            if (order == "exact") continue;
            SumOptions options;
            options.format = parse_format(result);
            options.accumulate = parse_format(sum);
            if (*product != '\0') options.product = parse_format(product);
            options.order = parse_sum_order(order);
            const Shape s{1, 37, 64 * (1 + random() % 5) + random() % 3,
                          70};  // whole runs of pairs, and some more
            const bool extremes =
                options.product ||
                std::string(held) != "bf16";  // exact products of bf16's are not fp32 numbers
            const auto a = operands(random, s.rows * s.terms, parse_format(held), false, extremes);
            const auto b =
                operands(random, s.terms * s.columns, parse_format(held), false, extremes);
            const SumPath path = sum_path(options, true, range_of(a), range_of(b));
            EXPECT_EQ(path, SumPath::fp32)
                << held << " " << product << " " << sum << " " << to_string(path);
            for (int level = 0; level <= static_cast<int>(best_simd_level()); ++level) {
                set_simd_level(static_cast<SimdLevel>(level));
                compare(options, a, b, s,
                        std::string(held) + " " + sum + " " + order + " at " +
                            std::to_string(level));
                if (HasFatalFailure()) return;
            }
        }
    }
}

// Sums that fp32 would round wrongly are not computed in fp32.
TEST(RegisterSumPath, AsksForItsTheoremsConditions) {
    SumOptions options;
    options.format = parse_format("fp16");
    options.product = parse_format("e4m3");
    const std::vector<float> narrow(100, 1.125f);
    std::vector<float> one_wide = narrow;
    one_wide[77] = 0x1.000002p0f;
    const auto path = [&](const std::vector<float>& a, const std::vector<float>& b) {
        return sum_path(options, true, range_of(a), range_of(b));
    };
    EXPECT_EQ(path(narrow, narrow), SumPath::fp32);
    EXPECT_EQ(path(narrow, one_wide), SumPath::fp64);  // 24 + 4 bits of a product
    options.product.reset();
    EXPECT_EQ(path(narrow, narrow), SumPath::fp32);  // 8 bits, fp16 numbers
    one_wide[77] = 1 + 0x1p-6f;
    EXPECT_EQ(path(one_wide, one_wide), SumPath::fp64);  // 14 bits: the ties of fp16 are among them
    one_wide[77] = 0x1.000002p0f;
    EXPECT_EQ(path(one_wide, one_wide), SumPath::fp64_odd);  // 48 bits, from 2^16 down to 2^-46
    options.projection.rounding = RoundingMode::toward_positive;
    options.product = parse_format("e4m3");
    EXPECT_EQ(path(narrow, narrow), SumPath::fp64);
    options.projection.rounding = RoundingMode::stochastic;
    EXPECT_EQ(path(narrow, narrow), SumPath::general);

    // tf32 * tf32 through fp32 gives 2^-135 (twice rounded), exactly 2^-136.
    options = {};
    options.format = options.product.emplace(parse_format("tf32"));
    const std::vector<float> x = {0x1.008p-60f}, y = {0x1.7f4p-76f};
    EXPECT_NE(path(x, y), SumPath::fp32);
    std::vector<float> out(1);
    ordered_matmul<float>(x, y, 1, 1, 1, out, options);
    EXPECT_EQ(out[0], 0x1p-136f);
    // 1 + 2^-11 is a tie of fp16, and 2^-24 above it no number of fp32: the smaller operand
    // decides.
    options.format = parse_format("fp16");
    options.product.reset();
    const std::vector<float> terms = {0x1p-24f, 1 + 0x1p-11f};
    ordered_sum<float>(terms, 2, out, options);
    EXPECT_EQ(out[0], 1 + 0x1p-10f);
}

TEST(ValueRange, IsThatOfTheNumbersThereAre) {
    const auto expect = [](const std::vector<float>& x, int precision, int quantum, int top) {
        const ValueRange r = range_of(x);
        EXPECT_EQ(r.precision, precision);
        EXPECT_EQ(r.quantum, quantum);
        EXPECT_EQ(r.top, top);
    };
    expect({1.0f, -8.0f, 0.0f}, 1, 0, 3);
    expect({1.5f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()},
           2, -1, 0);
    expect({0x1.fffffep127f, -0x1p-149f}, 24, -149, 127);
    expect({0x1p-126f, 0x1.8p-130f}, 6, -131,
           -126);  // a subnormal number's bits are counted from 2^-126 down
    expect({0x1.4p-20f, 0x1p-19f}, 3, -22, -19);
    EXPECT_TRUE(range_of(std::vector<float>{0.0f, -0.0f}).only_zeros());
    EXPECT_TRUE(range_of(std::vector<float>{}).only_zeros());
    for (const char* name : {"e4m3", "fp16", "bf16", "e5m2"}) {
        const FloatFormat f = parse_format(name);
        const ValueRange whole = range_of(f);
        const std::vector<float> ends = {static_cast<float>(f.largest()),
                                         static_cast<float>(f.smallest_positive())};
        expect(ends, range_of(ends).precision, whole.quantum, whole.top);
        EXPECT_LE(range_of(ends).precision, whole.precision);
    }
}

// In the widest set whose sums are exact, one sum has all bits of the hardware; with one more bit,
// the sums are not exact.
TEST(ValueRange, SumsAreExactUpToTheLastBit) {
    for (const int quantum : {-149, -30, 0, 60}) {
        for (const int bits : {24, 25}) {
            const int top = quantum + bits - 2;
            const double x = std::ldexp(1.0, top + 1) - std::ldexp(1.0, quantum),
                         y = x - std::ldexp(1.0, quantum);
            const float sum = static_cast<float>(x) + static_cast<float>(y);
            EXPECT_EQ(static_cast<double>(sum) == x + y, bits == 24) << quantum;
            EXPECT_EQ(sums_are_exact(fp32_hardware, {bits - 1, quantum, top}), bits == 24)
                << quantum;
        }
    }
    EXPECT_FALSE(sums_are_exact(fp32_hardware, {2, -150, -149}));
    EXPECT_FALSE(sums_are_exact(fp32_hardware, {2, 126, 127}));
}
