// Block formats, arithmetic and all-reduce through the public headers: known results, calls that
// must agree, and calls that are refused.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace apscope;

std::vector<float> ramp(std::size_t count) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = (static_cast<float>(i * 37 % 101) - 50.0f) / 16.0f;
    return x;
}

TEST(CppBlocks, KnownValues) {
    const BlockQuantizer q{block_format("mxfp8_e4m3")};
    const std::vector<float> x = {500.0f, 1.0f, 0.3f};
    std::vector<float> y(3);
    q(x, y);
    EXPECT_EQ(y, (std::vector<float>{448.0f, 1.0f, 0.3125f}));
}

TEST(CppBlocks, CodesComeBackAlongEveryAxis) {
    const std::vector<std::size_t> shape = {3, 70, 5};
    const std::vector<float> x = ramp(3 * 70 * 5);
    for (const char* name : {"mxfp4", "mxfp8_e4m3", "nvfp4", "mxint8"}) {
        const BlockQuantizer q{block_format(name)};
        std::vector<float> first;
        for (const int axis : {0, 1, -1, -2}) {
            std::vector<float> y(x.size()), back(x.size());
            q(x, y, shape, axis);
            const BlockCodes codes = q.encode(x, shape, axis);
            q.decode(codes, back, shape, axis);
            EXPECT_EQ(y, back) << name << " along " << axis;
            if (axis == 1) first = y;
            if (axis == -2) {
                EXPECT_EQ(first, y);
            }
        }
    }
    const BlockQuantizer q{block_format("mxfp4")};
    std::vector<float> y(x.size());
    EXPECT_THROW(q(x, y, shape, 3), std::invalid_argument);
    EXPECT_THROW(q(x, y, std::vector<std::size_t>{2, 2}, 0), std::invalid_argument);
    EXPECT_THROW(BlockQuantizer(block_format("mxfp4"),
                                {.rounding = RoundingMode::stochastic, .random_bits = 99}),
                 std::invalid_argument);
    EXPECT_THROW((void)block_format("mxfp5"), std::invalid_argument);
}

TEST(CppArithmetic, OneRoundingEach) {
    const Rounding e4m3{.format = format("e4m3")};
    EXPECT_EQ(add(16.0f, 1.0f, e4m3), 16.0f);  // a tie, to even
    EXPECT_EQ(subtract(16.0f, 1.0f, e4m3), 15.0f);
    EXPECT_EQ(multiply(1.125f, 1.125f, e4m3), 1.25f);
    EXPECT_EQ(divide(1.0f, 3.0f, e4m3), 0.34375f);
    EXPECT_EQ(apscope::sqrt(2.0f, e4m3), 1.375f);
    EXPECT_EQ(apscope::fma(1.125f, 1.125f, -1.25f, e4m3), 0.015625f);
    EXPECT_EQ(
        add(1.0, 0x1p-60,
            {.format = format("bf16"), .projection = {.rounding = RoundingMode::toward_positive}}),
        1.0078125);
    const std::vector<float> a = {1.0f, 2.0f, 3.0f}, b = {0.0625f};
    std::vector<float> out(3);
    arithmetic("add", a, b, std::span<const float>{}, out, e4m3);
    EXPECT_EQ(out, (std::vector<float>{1.0f, 2.0f, 3.0f}));
    EXPECT_THROW(arithmetic("power", a, b, std::span<const float>{}, out, e4m3),
                 std::invalid_argument);
    EXPECT_THROW((void)add(1.0f, 1.0f,
                           {.format = format("e4m3"),
                            .projection = {.rounding = RoundingMode::stochastic_exact}}),
                 std::invalid_argument);
}

TEST(CppArithmetic, SumsInAStatedOrder) {
    const std::vector<float> ones(100, 1.0f);
    const FloatFormat f = format("e4m3");
    EXPECT_EQ(sum(ones, {.format = f}), 16.0f);
    EXPECT_EQ(sum(ones, {.format = f, .order = "pairwise"}), 96.0f);
    EXPECT_EQ(sum(ones, {.format = f, .order = "exact"}), 96.0f);
    EXPECT_EQ(sum(ones, {.format = f, .accumulate = format("fp16")}), 96.0f);
    const std::vector<double> a = {1.125, 1.125}, b = {1.125, -1.125};
    EXPECT_EQ(dot(a, b, {.format = f, .product = f}), 0.0);
    EXPECT_THROW((void)sum(ones, {.format = f, .order = "random"}), std::invalid_argument);
    // Columns of rows, and a product of matrices by dot products.
    std::vector<float> columns(2);
    sum(std::vector<float>{1, 2, 3, 4, 5, 6}, 3, columns, {.format = f});
    EXPECT_EQ(columns, (std::vector<float>{9.0f, 12.0f}));
    const std::vector<float> x = ramp(6 * 40), y = ramp(40 * 3);
    const Summation how{.format = format("bf16"),
                        .order = "chunked:8",
                        .accumulate = format("fp16"),
                        .product = format("e5m7")};
    std::vector<float> z(6 * 3);
    matmul(x, y, z, {.rows = 6, .terms = 40, .columns = 3}, how);
    for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
            std::vector<float> column(40);
            for (std::size_t k = 0; k < 40; ++k) column[k] = y[k * 3 + j];
            EXPECT_EQ(z[i * 3 + j],
                      dot(std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(i * 40),
                                             x.begin() + static_cast<std::ptrdiff_t>(i * 40 + 40)),
                          column, how));
        }
    }
    EXPECT_THROW(matmul(x, y, z, {.rows = 5, .terms = 40, .columns = 3}, how),
                 std::invalid_argument);
}

TEST(CppAllreduce, HopsRoundOnceEach) {
    const FloatFormat f = format("e4m3");
    const std::vector<std::vector<float>> rows = {
        {16.0f, 1.0f}, {1.0f, 2.0f}, {1.0f, 3.0f}, {1.0f, 0.1f}};
    EXPECT_EQ(allreduce(rows, f, {.topology = "sequential"}), (std::vector<double>{16.0, 6.0}));
    EXPECT_EQ(allreduce(rows, f, {.topology = "tree"}), (std::vector<double>{18.0, 6.0}));
    EXPECT_EQ(allreduce(rows, f, {.topology = "exact"}), (std::vector<double>{19.0, 6.1015625}));
    EXPECT_EQ(allreduce(rows, f, {.topology = "sequential", .accumulate = format("fp32")}),
              (std::vector<double>{19.0, 6.1015625}));
    // Rows at any addresses, and rows one after another.
    const std::vector<float> x = ramp(4 * 33);
    std::vector<std::span<const float>> spans;
    for (std::size_t w = 0; w < 4; ++w) spans.emplace_back(x.data() + w * 33, 33);
    for (const char* topology : {"ring", "hierarchical:2", "sequential+kahan"}) {
        std::vector<double> together(33);
        const AllreduceOptions options{
            .topology = topology, .projection = {.rounding = RoundingMode::stochastic}, .seed = 5};
        allreduce(x, 4, together, f, options);
        EXPECT_EQ(together, allreduce(spans, f, options)) << topology;
    }
    EXPECT_THROW((void)allreduce(std::vector<std::vector<float>>{}, f), std::invalid_argument);
    EXPECT_THROW((void)allreduce(std::vector<std::vector<float>>{{1.0f}, {1.0f, 2.0f}}, f),
                 std::invalid_argument);
    EXPECT_THROW((void)allreduce(rows, f, {.topology = "star"}), std::invalid_argument);
    EXPECT_THROW((void)allreduce(rows, f, {.topology = "ring+kahan"}), std::invalid_argument);
    EXPECT_THROW((void)allreduce(rows, format("e11m30")), std::invalid_argument);
}

}  // namespace
