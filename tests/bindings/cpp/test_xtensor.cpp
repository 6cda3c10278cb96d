// xtensor arguments and results: containers, views and lazy expressions give the results of arrays;
// expressions are evaluated once.
#include <apscope/xtensor.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#if __has_include(<xtensor/views/xview.hpp>)
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xview.hpp>
#endif

namespace {

using namespace apscope;

xt::xtensor<float, 2> sample(std::size_t rows, std::size_t columns) {
    xt::xtensor<float, 2> x = xt::xtensor<float, 2>::from_shape({rows, columns});
    for (std::size_t i = 0; i < x.size(); ++i)
        x.data()[i] = (static_cast<float>(i * 37 % 101) - 50.0f) / 7.0f;
    return x;
}

TEST(CppXtensor, ContainersViewsAndExpressions) {
    const Quantizer q(format("e4m3"), {.rounding = RoundingMode::stochastic}, 4);
    const xt::xtensor<float, 2> x = sample(6, 50);
    const auto y = quantize(x, q);
    static_assert(std::is_same_v<decltype(y), const xt::xtensor<float, 2>>);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y.data()[i], q(x.data()[i], i));

    const xt::xarray<float> dynamic = x;
    const auto z = quantize(dynamic, q);
    static_assert(std::is_same_v<decltype(z), const xt::xarray<float>>);
    EXPECT_TRUE(xt::all(xt::equal(z, y)));
    // Elements are numbered in C order here too.
    const xt::xtensor<float, 2, xt::layout_type::column_major> turned = x;
    EXPECT_TRUE(xt::all(xt::equal(quantize(turned, q), y)));

    const xt::xtensor<float, 1> row = xt::view(x, 2, xt::range(3, 40));
    EXPECT_TRUE(
        xt::all(xt::equal(quantize(xt::view(x, 2, xt::range(3, 40)), q), quantize(row, q))));
    const xt::xtensor<float, 2> scaled = x * 0.125f + 1.0f;
    EXPECT_TRUE(xt::all(xt::equal(quantize(x * 0.125f + 1.0f, q), quantize(scaled, q))));
    const auto wide = quantize(xt::cast<double>(x) / 3.0, Quantizer(format("e5m10")));
    static_assert(std::is_same_v<decltype(wide)::value_type, double>);
    EXPECT_EQ(wide(1, 2), Quantizer(format("e5m10"))(static_cast<double>(x(1, 2)) / 3.0));
}

TEST(CppXtensor, ExpressionsAreEvaluatedOnce) {
    int calls = 0;
    const xt::xtensor<float, 2> x = sample(4, 9);
    const auto counted = xt::make_lambda_xfunction(
        [&calls](float v) {
            ++calls;
            return v * 2.0f;
        },
        x);
    const auto y = quantize(counted, Quantizer(format("e4m3")));
    EXPECT_EQ(calls, 36);
    EXPECT_EQ(y(0, 1), Quantizer(format("e4m3"))(x(0, 1) * 2.0f));
}

TEST(CppXtensor, Codes) {
    const Quantizer q(format("e4m3"));
    const xt::xtensor<float, 2> x = sample(3, 20);
    const auto codes = encode<std::uint8_t>(x * 2.0f, q);
    static_assert(std::is_same_v<decltype(codes), const xt::xtensor<std::uint8_t, 2>>);
    EXPECT_TRUE(xt::all(xt::equal(decode(codes, q), quantize(x * 2.0f, q))));
    EXPECT_EQ(decode<double>(codes, q)(2, 3), static_cast<double>(q(x(2, 3) * 2.0f)));
}

TEST(CppXtensor, BlocksAlongAnAxis) {
    const BlockQuantizer q(block_format("mxfp4"));
    const xt::xtensor<float, 2> x = sample(40, 33);
    for (const int axis : {0, 1, -2}) {
        std::vector<float> expected(x.size());
        const std::vector<std::size_t> shape = {40, 33};
        q(std::span<const float>(x.data(), x.size()), expected, shape, axis);
        const auto y = quantize(x, q, axis);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), y.data())) << axis;
    }
    EXPECT_THROW((void)quantize(x, q, 2), std::invalid_argument);
}

TEST(CppXtensor, AllreduceOverAnAxisOfWorkers) {
    const FloatFormat f = format("e4m3");
    const xt::xtensor<float, 2> x = sample(4, 30);
    std::vector<double> expected(30);
    const AllreduceOptions options{.topology = "ring"};
    allreduce(std::span<const float>(x.data(), x.size()), 4, expected, f, options);
    const xt::xarray<double> sum = allreduce(x, f, 0, options);
    EXPECT_EQ(sum.shape(), (xt::xarray<double>::shape_type{30}));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sum.begin()));
    const xt::xarray<float> turned = xt::transpose(x);
    EXPECT_TRUE(xt::all(xt::equal(allreduce(turned, f, -1, options), sum)));
    // Workers in the middle: (2, workers, 15)
    xt::xarray<float> middle = xt::xarray<float>::from_shape({2, 4, 15});
    for (std::size_t a = 0; a < 2; ++a) {
        for (std::size_t w = 0; w < 4; ++w) {
            for (std::size_t b = 0; b < 15; ++b) middle(a, w, b) = x(w, a * 15 + b);
        }
    }
    const xt::xarray<double> folded = allreduce(middle, f, 1, options);
    EXPECT_EQ(folded.shape(), (xt::xarray<double>::shape_type{2, 15}));
    EXPECT_TRUE(std::equal(sum.begin(), sum.end(), folded.begin()));
    EXPECT_THROW((void)allreduce(x, f, 2), std::invalid_argument);
}

// Computes the summary's first number again, from sums over axes of the tables.
TEST(CppXtensor, TablesOfAReplay) {
    const Results results =
        replay(open_trace(APSCOPE_ROOT "/notebooks/data/digits"), {"none:e4m3", "aps:e4m3"},
               {.topologies = {"ring"}, .end_step = 3});
    const xt::xtensor<double, 3> error = table(results, "sum_squared_error", "ring"),
                                 reference = table(results, "sum_squared_reference", "ring");
    EXPECT_EQ(error.shape(0), results.steps().size());
    EXPECT_EQ(error.shape(1), results.tensors().size());
    EXPECT_EQ(error.shape(2), 2u);
    const xt::xtensor<double, 1> step_nmse =
        xt::mean(xt::sum(error, {1}) / xt::sum(reference, {1}), {0});
    for (const SummaryRow& row : results.summary()) {
        if (row.topology == "ring") {
            EXPECT_NEAR(row.step_nmse, step_nmse(row.scheme == "none:e4m3" ? 0 : 1),
                        1e-12 * row.step_nmse)
                << row.scheme;
        }
    }
}

}  // namespace
