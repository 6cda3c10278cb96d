// A GPU thread's work in a matrix product, run here on the CPU: every output has the bits of
// emulation/arithmetic/ordered_sum.h.
#include <gtest/gtest.h>

#include <vector>

#include "core/named_formats.h"
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
