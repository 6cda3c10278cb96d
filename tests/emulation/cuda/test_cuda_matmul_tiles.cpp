// The tiles of a matrix product on a GPU, run here on the CPU: their roundings are those of one
// rounding of the exact result, and every output has the bits of the general path on the host.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cuda/arithmetic/matmul_choice.h"
#include "emulation/cuda/arithmetic/tile_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

std::uint32_t bits_of(float x) { return bits_cast<std::uint32_t>(x); }

// fma_to_odd() as a GPU computes it, with the processor's rounding directions.
float directed_fma_to_odd(float a, float b, float c) {
    float (*volatile fused)(float, float, float) = std::fmaf;
    const int before = std::fegetround();
    std::fesetround(FE_DOWNWARD);
    float odd = fused(a, b, c);
    if ((bits_of(odd) & 1) == 0) {
        std::fesetround(FE_UPWARD);
        odd = fused(a, b, c);
    }
    std::fesetround(before);
    return odd;
}

TEST(CudaMatmulTiles, DirectedRoundingsGiveTheOddNumber) {
    const std::vector<float>& edges = edge_inputs();
    const std::size_t n = edges.size();
    std::size_t wrong = 0, inexact = 0;
    const auto compare = [&](float a, float b, float c) {
        const float wanted = fma_to_odd(a, b, c), got = directed_fma_to_odd(a, b, c);
        wrong += bits_of(wanted) != bits_of(got) && !(wanted != wanted && got != got);
        inexact += (bits_of(got) & 1);
    };
    for (std::size_t i = 0; i < 400'000; ++i) {
        const PhiloxBlock r = philox({{static_cast<std::uint32_t>(i), 7, 0, 0}}, {3, 1});
        const float a = edges[r.word[0] % n], b = edges[r.word[1] % n], c = edges[r.word[2] % n];
        compare(a, b, c);
        compare(a, b, -0.0f);
        compare(1.0f, b, c);
        compare(a, b, -(a * b));  // sums near zero
        compare(a, b, 0x1.8p12f * (a * b));
        compare(1.0f, b, -b);
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(inexact, 1'000'000u);
}

const std::vector<const char*>& formats() {
    static const std::vector<const char*> names{
        "fp32",   "fp16",  "bf16",   "tf32",        "pxr24",       "dlfloat16",
        "e5m2",   "e4m3",  "e4m3fn", "e4m3fnuz",    "e5m2fnuz",    "e3m2fn",
        "e2m1fn", "e3m0",  "e6m9",   "fp16_ahp",    "e4m3b11fnuz", "hfp8_forward",
        "e8m3",   "e8m21", "e8m22",  "e5m11",       "e5m12",       "e5m20",
        "e5m21",  "e7m18", "e2m1",   "binary8p3se", "e8m0fn"};
    return names;
}

TEST(CudaMatmulTiles, FusedAdditionsRoundAsTheStep) {
    std::size_t steps = 0, wrong = 0;
    for (const char* name : formats()) {
        for (int overflow = 0; overflow < overflow_count; ++overflow) {
            const FloatFormat format = parse_format(name);
            const Projection projection{.overflow = static_cast<Overflow>(overflow)};
            std::optional<StepCast<float>> step;
            try {
                make_rounder(format, projection);
                step = make_step<float>(format, projection);
            } catch (const std::invalid_argument&) {}
            if (!step || step->step != Step::addition) continue;
            ++steps;
            for (const float x : edge_inputs()) {
                for (const std::uint32_t beside : {0u, 1u, ~0u}) {
                    const float y = bits_cast<float>(bits_of(x) + beside),
                                wanted = round_step<Step::addition>(y, *step),
                                got = round_odd<Step::addition>(y, *step);
                    wrong += bits_of(wanted) != bits_of(got) && !(wanted != wanted && got != got);
                }
            }
        }
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(steps, 40u);
}

SumOptions with_formats(const char* order, const char* format, const char* product) {
    SumOptions options;
    options.order = parse_sum_order(order);
    options.format = parse_format(format);
    if (*product != '\0') options.product = parse_format(product);
    options.registers = false;  // the rule
    return options;
}

struct Shape {
    std::size_t batches, rows, terms, columns;
};

// Returns whether the tiles serve the options; compares their results with those of the rule.
bool tiles_serve(const std::vector<float>& a, const std::vector<float>& b, const Shape& shape,
                 const SumOptions& options, const std::string& what) {
    const auto [batches, rows, terms, columns] = shape;
    const bool has_result = make_matmul_rounders(options, terms).has_result;
    std::vector<float> expected(batches * rows * columns);
    for (const bool tall : {false, true}) {
        std::vector<float> out(expected.size() + 1, -7.0f);
        if (!with_matmul_tile(a.data(), b.data(), out.data(), batches, rows, terms, columns, tall,
                              options, [](const auto& step) { run_on_cpu(step); }))
            return false;
        EXPECT_EQ(out.back(), -7.0f);
        out.pop_back();
        if (has_result) quantize(out, out, options.format, options.projection);
        if (!tall) ordered_matmul<float>(a, b, batches, rows, terms, expected, options);
        EXPECT_EQ(differing(expected, out), 0u)
            << what << " " << to_string(options.projection.overflow) << " " << batches << "x"
            << rows << "x" << terms << "x" << columns << (tall ? " tall" : "");
    }
    return true;
}

// Numbers of few significant bits, some of which are zeros.
std::vector<float> narrow_numbers(std::size_t n, int spread, std::uint32_t seed) {
    std::vector<float> x = random_floats(n, spread, seed);
    quantize(x, x, parse_format("e8m3"), {});
    for (std::size_t i = seed % 5; i < n; i += 5) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    return x;
}
// Numbers of which every seventh is special, tiny or huge.
std::vector<float> special_numbers(std::size_t n, std::uint32_t seed) {
    std::vector<float> x = random_floats(n, 4, seed);
    for (std::size_t i = seed; i < n; i += 7)
        x[i] = edge_inputs()[(i * 131 + seed * 977) % edge_inputs().size()];
    return x;
}

TEST(CudaMatmulTiles, AllFormats) {
    constexpr Shape shape{1, 5, 23, 6};
    constexpr std::size_t left = shape.rows * shape.terms, right = shape.terms * shape.columns;
    const std::vector<std::vector<float>> as{narrow_numbers(left, 4, 1), random_floats(left, 9, 2),
                                             random_floats(left, 70, 3), special_numbers(left, 4)},
        bs{narrow_numbers(right, 4, 5), random_floats(right, 9, 6), random_floats(right, 70, 7),
           special_numbers(right, 8)};
    std::size_t served = 0, all = 0;
    for (const char* format : formats()) {
        for (const char* product : {"", "e4m3", "e4m3fnuz", "bf16", "fp16", "fp32", "e3m2fn"}) {
            for (const char* order : {"sequential", "chunked:7", "kahan", "pairwise"}) {
                for (int overflow = 0; overflow < overflow_count; ++overflow) {
                    SumOptions options = with_formats(order, format, product);
                    options.projection.overflow = static_cast<Overflow>(overflow);
                    try {
                        make_matmul_rounders(options, shape.terms);
                    } catch (const std::invalid_argument&) {
                        continue;
                    }
                    const std::string what =
                        std::string(format) + " " + product + " " + order + " ";
                    for (std::size_t i = 0; i < as.size(); ++i) {
                        ++all;
                        served +=
                            tiles_serve(as[i], bs[i], shape, options, what + std::to_string(i));
                    }
                }
            }
        }
    }
    RecordProperty("served", static_cast<int>(served));
    RecordProperty("all", static_cast<int>(all));
    EXPECT_GT(served, all / 2) << served << " of " << all;
}

TEST(CudaMatmulTiles, AllShapes) {
    std::size_t served = 0, all = 0;
    for (const std::size_t rows : {1u, 3u, 5u, 17u, 33u, 64u}) {
        for (const std::size_t columns : {1u, 3u, 5u, 17u, 33u, 64u, 132u, 260u}) {
            if (rows > 17 && columns > 64) continue;
            for (const std::size_t terms : {1u, 2u, 5u, 16u}) {
                const Shape shape{rows < 6 ? 3u : 1u, rows, terms, columns};
                const std::vector<float> a = special_numbers(shape.batches * rows * terms, 1),
                                         b = special_numbers(shape.batches * terms * columns, 2);
                for (const char* product : {"", "e4m3"}) {
                    for (const char* order :
                         {"sequential", "chunked:1", "chunked:4", "kahan", "pairwise"}) {
                        SumOptions options = with_formats(order, "fp16", product);
                        ++all;
                        served += tiles_serve(a, b, shape, options, order);
                        options.accumulate = parse_format("fp32");
                        ++all;
                        served += tiles_serve(a, b, shape, options, order);
                    }
                }
            }
        }
    }
    EXPECT_EQ(served, all);
}

// Every way in which the last terms of a pairwise sum are added.
TEST(CudaMatmulTiles, PairwiseSumsOfEveryLength) {
    for (std::size_t terms = 1; terms <= 133; ++terms) {
        const Shape shape{1, 3, terms, 5};
        const std::vector<float> a = special_numbers(shape.rows * terms, 1),
                                 b = special_numbers(terms * shape.columns, 2);
        for (const char* format : {"fp16", "bf16", "fp32"})
            for (const char* product : {"", "e4m3"})
                EXPECT_TRUE(tiles_serve(a, b, shape, with_formats("pairwise", format, product),
                                        "pairwise"));
    }
}

TEST(CudaMatmulTiles, MisalignedOperands) {
    const Shape shape{2, 6, 9, 8};
    const std::vector<float> a = random_floats(2 * 6 * 9, 5, 1), b = random_floats(2 * 9 * 8, 5, 2);
    std::vector<float> moved(b.size() + 4);
    for (std::size_t offset = 0; offset < 5; ++offset) {
        std::copy(b.begin(), b.end(), moved.begin() + static_cast<std::ptrdiff_t>(offset));
        const SumOptions options = with_formats("sequential", "fp16", "");
        std::vector<float> out(2 * 6 * 8), expected(out.size());
        EXPECT_TRUE(with_matmul_tile(a.data(), moved.data() + offset, out.data(), shape.batches,
                                     shape.rows, shape.terms, shape.columns, offset % 2 == 0,
                                     options, [](const auto& step) { run_on_cpu(step); }));
        ordered_matmul<float>(a, b, shape.batches, shape.rows, shape.terms, expected, options);
        EXPECT_EQ(differing(expected, out), 0u) << offset;
    }
}

template <class Rounding, bool Kahan, int Rows>
bool has_order(const MatmulTile<Rounding, Kahan, Rows>&, SumOrder::Kind kind) {
    return kind != SumOrder::Kind::pairwise && Kahan == (kind == SumOrder::Kind::kahan);
}
template <class Rounding, int Rows>
bool has_order(const PairwiseTile<Rounding, Rows>&, SumOrder::Kind kind) {
    return kind == SumOrder::Kind::pairwise;
}
TEST(CudaMatmulTiles, AreChosenForRoundingsToNearest) {
    const auto chosen = [](const SumOptions& options, std::size_t terms = 3) {
        bool called = false;
        const bool served = with_matmul_tile(nullptr, nullptr, nullptr, 1, 1, terms, 1, true,
                                             options, [&](const auto& step) {
                                                 called = true;
                                                 EXPECT_TRUE(has_order(step, options.order.kind));
                                             });
        EXPECT_EQ(called, served);
        return served;
    };
    for (const char* order : {"sequential", "chunked:64", "kahan", "pairwise"}) {
        for (const char* format : {"fp32", "fp16", "bf16", "tf32", "e5m2", "e4m3fn", "e8m21"})
            for (const char* product : {"", "e4m3", "fp16", "bf16", "fp32"})
                EXPECT_TRUE(chosen(with_formats(order, format, product)))
                    << order << " " << format << " " << product;
        // fp32 has less than two bits more.
        EXPECT_FALSE(chosen(with_formats(order, "e8m22", "")));
        EXPECT_FALSE(chosen(with_formats(order, "fp16", "e8m22")));
        SumOptions options = with_formats(order, "fp16", "");
        EXPECT_FALSE(chosen(options, 0));
        options.projection.rounding = RoundingMode::toward_zero;
        EXPECT_FALSE(chosen(options));
        options.projection = {.underflow = Underflow::flush_result};
        EXPECT_FALSE(chosen(options));
    }
    EXPECT_FALSE(chosen(with_formats("pairwise", "fp16", ""), most_pairwise_terms + 1));
    EXPECT_FALSE(chosen(with_formats("exact", "fp16", "")));
}

}  // namespace
}  // namespace apscope::detail
