// A GPU thread's work in a matrix product, run here on the CPU: every output has the bits of
// emulation/arithmetic/ordered_sum.h.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cuda/arithmetic/matmul_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

constexpr std::size_t batches = 2, rows = 3, columns = 5;

void expect_products(const std::vector<float>& a, const std::vector<float>& b, std::size_t terms,
                     const SumOptions& options, const char* what) {
    std::vector<float> expected(batches * rows * columns), out(expected.size(), -1.0f);
    ordered_matmul<float>(a, b, batches, rows, terms, expected, options);
    with_matmul_step(a.data(), b.data(), out.data(), batches, rows, terms, columns, options,
                     [](const auto& step) { run_on_cpu(step); });
    EXPECT_EQ(differing(expected, out), 0u)
        << what << " terms=" << terms << " " << options.format.name() << " "
        << to_string(options.projection.rounding);
}

SumOptions with_order(const char* order, const char* format) {
    SumOptions options;
    options.order = parse_sum_order(order);
    options.format = parse_format(format);
    options.seed = 3;
    return options;
}

TEST(CudaMatmul, EveryOrderModeAndFormats) {
    for (const char* order : {"sequential", "chunked:1", "chunked:4", "pairwise", "kahan"}) {
        for (const std::size_t terms : {0u, 1u, 2u, 3u, 8u, 21u}) {
            std::vector<float> a = random_floats(batches * rows * terms, 5, 1),
                               b = random_floats(batches * terms * columns, 5, 2);
            for (int mode = 0; mode < rounding_mode_count; ++mode) {
                SumOptions options = with_order(order, "e5m2");
                options.projection.rounding = static_cast<RoundingMode>(mode);
                if (options.projection.rounding == RoundingMode::stochastic_exact) continue;
                expect_products(a, b, terms, options, order);
                options.product = parse_format("e4m3");
                expect_products(a, b, terms, options, order);
                options.accumulate = parse_format("fp16");
                expect_products(a, b, terms, options, order);
                options.projection.underflow = Underflow::flush_both;
                options.projection.random_bits = 60;
                expect_products(a, b, terms, options, order);
                options.product.reset();
                if (options.order.kind != SumOrder::Kind::pairwise)
                    expect_products(a, b, terms, options, order);
            }
        }
    }
}

TEST(CudaMatmul, SpecialValues) {
    constexpr std::size_t terms = 40;
    std::vector<float> a = random_floats(batches * rows * terms, 3, 4),
                       b = random_floats(batches * terms * columns, 3, 5);
    for (std::size_t i = 0; i < a.size(); i += 17)
        a[i] = edge_inputs()[i * 131 % edge_inputs().size()];
    for (std::size_t i = 0; i < b.size(); i += 23)
        b[i] = edge_inputs()[i * 173 % edge_inputs().size()];
    for (const char* order : {"sequential", "chunked:7", "pairwise", "kahan"}) {
        for (const char* format : {"e4m3fn", "bf16", "fp32", "e4m3fnuz"}) {
            for (const RoundingMode mode :
                 {RoundingMode::ties_to_even, RoundingMode::toward_negative,
                  RoundingMode::stochastic}) {
                SumOptions options = with_order(order, format);
                options.projection.rounding = mode;
                expect_products(a, b, terms, options, order);
            }
        }
    }
}

// Runs the step that finds the first number which is not a value of a format.
std::optional<std::size_t> first_other(const float* x, std::size_t size,
                                       const FloatFormat& format) {
    unsigned long long first = ~0ull;
    run_on_cpu(find_other_number(x, size, format, &first));
    if (first == ~0ull) return std::nullopt;
    return static_cast<std::size_t>(first);
}
float number_at(const float* x, std::size_t index) { return x[index]; }
NumberRange range_at(const float* x, std::size_t size) {
    NumberRangeStep::Found found{0, 0, 0};
    run_on_cpu(NumberRangeStep{x, size, &found});
    return NumberRangeStep::range_of(found);
}

template <class Step>
constexpr bool is_unit_tile = false;
template <int Rows, class Sum>
constexpr bool is_unit_tile<UnitTile<Rows, Sum>> = true;

TEST(CudaMatmul, MatrixUnits) {
    int in_tiles = 0;
    std::vector<std::string> orders{"k=16,fraction=25,result=23,inputs=e5m2*fp16",
                                    "k=7,fraction=9,result=5,result_rounding=ties_to_even",
                                    "k=8,fraction=30,result=10,format=fp16,subnormals=flush"};
    for (const MatrixUnitPreset& preset : matrix_unit_presets())
        for (const char* above : {"", ",promote=6", ",promote=32", ",split=3", ",split=1000"})
            if (preset.unit.scaled == 0 && (!preset.unit.half || *above == '\0'))
                orders.push_back(std::string(preset.name) + above);
    for (const std::string& order : orders) {
        SumOptions options = with_order(("unit:" + order).c_str(), "fp32");
        const MatrixUnitOrder& unit = *options.order.unit;
        if (unit.unit.half) options.format = parse_format("fp16");
        for (const std::size_t terms : {0u, 1u, 5u, 33u, 75u}) {
            for (const bool special : {false, true}) {
                std::vector<float> a = random_floats(batches * rows * terms, 6, 1),
                                   b = random_floats(batches * terms * columns, 6, 2),
                                   c = random_floats(batches * rows * columns, 12, 3);
                const auto as_inputs = [&](std::vector<float>& x, std::size_t operand) {
                    if (special)
                        for (std::size_t i = 0; i < x.size(); i += 7)
                            x[i] = edge_inputs()[(i * 131 + terms) % edge_inputs().size()];
                    if (!unit.inputs[operand].empty())
                        quantize(x, x, parse_format(unit.inputs[operand].back()), {});
                };
                as_inputs(a, 0);
                as_inputs(b, 1);
                if (special)
                    for (std::size_t i = 0; i < c.size(); i += 3)
                        c[i] = edge_inputs()[i * 977 % edge_inputs().size()];
                for (const bool has_c : {false, true}) {
                    std::vector<float> expected(c.size());
                    ordered_matmul<float>(a, b, batches, rows, terms, expected, options,
                                          has_c ? std::span<const float>(c)
                                                : std::span<const float>());
                    for (const bool tall : {false, true}) {
                        std::vector<float> out(c.size(), -1.0f);
                        with_unit_step(a.data(), b.data(), has_c ? c.data() : nullptr, out.data(),
                                       batches, rows, terms, columns, tall, unit, first_other,
                                       number_at, range_at, [&]<class Step>(const Step& step) {
                                           run_on_cpu(step);
                                           in_tiles += is_unit_tile<Step> ? 1 : 0;
                                       });
                        EXPECT_EQ(differing(expected, out), 0u) << order << " terms=" << terms;
                    }
                }
            }
        }
    }
    EXPECT_GT(in_tiles, 1000);
}

// Where the fast tiles serve and where they do not: products and C at the limits of
// emulation/arithmetic/unit_fp32.h, and beyond.
TEST(CudaMatmul, MatrixUnitsAtTheLimitsOfTheirTiles) {
    struct Case {
        float a, b, c;
        bool tiles;
    };
    const Case cases[] = {{0x1p-37f, 0x1p-38f, 0x1p-100f, true},
                          {0x1p-38f, 0x1p-38f, 1.0f, false},
                          {0x1.fp45f, 0x1.fp45f, 0x1p100f, true},
                          {0x1p46f, 0x1p45f, 1.0f, false},
                          {1.0f, 1.0f, 0x1.8p-101f, false},
                          {1.0f, 1.0f, 0x1.8p100f, false},
                          {0x1.ffep0f, 0x1.ffep0f, 0.0f, true},
                          {0x1.fffp0f, 0x1.fffp0f, 0.0f, false},
                          {0.0f, 1.0f, -0.0f, true},
                          {1.0f, std::numeric_limits<float>::infinity(), 1.0f, false}};
    SumOptions options = with_order("unit:k=16,fraction=25,result=23", "fp32");
    for (const Case& limit : cases) {
        constexpr std::size_t terms = 35;
        std::vector<float> a(batches * rows * terms, limit.a),
            b(batches * terms * columns, limit.b), c(batches * rows * columns, limit.c),
            expected(c.size()), out(c.size(), -1.0f);
        for (std::size_t i = 0; i < a.size(); i += 3) a[i] = -a[i];
        for (std::size_t i = 0; i < b.size(); i += 5) b[i] = 0.0f;
        ordered_matmul<float>(a, b, batches, rows, terms, expected, options, c);
        bool tiles = false;
        with_unit_step(a.data(), b.data(), c.data(), out.data(), batches, rows, terms, columns,
                       true, *options.order.unit, first_other, number_at, range_at,
                       [&]<class Step>(const Step& step) {
                           run_on_cpu(step);
                           tiles = is_unit_tile<Step>;
                       });
        EXPECT_EQ(differing(expected, out), 0u) << limit.a << " " << limit.b << " " << limit.c;
        EXPECT_EQ(tiles, limit.tiles) << limit.a << " " << limit.b << " " << limit.c;
    }
}

TEST(CudaMatmul, MatrixUnitsRefuseOtherInputs) {
    const std::vector<float> a(batches * rows, 1.5f);
    std::vector<float> b(batches * columns, 1.0f), out(batches * rows * columns);
    b[3] = 1.0f + 0x1p-11f;
    b[4] = 0x1.1p-20f;
    const MatrixUnitOrder order = parse_matrix_unit_order("h100");
    try {
        with_unit_step(a.data(), b.data(), nullptr, out.data(), batches, rows, 1, columns, false,
                       order, first_other, number_at, range_at, [](const auto&) {});
        FAIL();
    } catch (const std::invalid_argument& e) {
        EXPECT_STREQ(e.what(), "b has 1.00048828125 at element 3, which is not a value of fp16 or "
                               "bf16, the inputs of order=unit:h100; quantize it first");
    }
}

TEST(CudaMatmul, RefusesWhatItDoesNotServe) {
    const auto asked = [](const SumOptions& options, std::size_t terms) {
        with_matmul_step(nullptr, nullptr, nullptr, 1, 1, terms, 1, options, [](const auto&) {});
    };
    EXPECT_THROW(asked(with_order("exact", "fp16"), 1), std::invalid_argument);
    SumOptions options = with_order("sequential", "fp16");
    options.projection.rounding = RoundingMode::stochastic;
    EXPECT_THROW(asked(options, std::size_t{1} << 26), std::invalid_argument);
    options = with_order("pairwise", "fp16");
    options.projection.underflow = Underflow::flush_input;
    EXPECT_THROW(asked(options, 4), std::invalid_argument);
    EXPECT_THROW(asked(with_order("sequential", "fp64"), 1), std::invalid_argument);
}

}  // namespace
}  // namespace apscope::detail
