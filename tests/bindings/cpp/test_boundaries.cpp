// Calls at the edge of what is defined: sizes whose products wrap around, objects that were moved
// from or never filled, arrays that overlap, callers that flush subnormal numbers.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

using namespace apscope;

constexpr std::size_t half = std::size_t{1} << 63, root = std::size_t{1} << 32;

// The message of the std::invalid_argument that a call throws; empty if it throws none.
std::string error(const std::function<void()>& call) {
    try {
        call();
    } catch (const std::invalid_argument& refused) {
        return refused.what();
    }
    return "";
}

void expect_too_many(const std::string& message) {
    EXPECT_NE(message.find("has more elements than any array; give smaller lengths"),
              std::string::npos)
        << message;
}

TEST(CppSizes, SumsAndProducts) {
    const std::span<const float> none;
    std::vector<float> out(2), three(3);
    const Summation how{.format = format("e4m3")};
    EXPECT_EQ(error([&] { sum(none, half, out, how); }),
              "x (9223372036854775808, 2) has more elements than any array; give smaller lengths");
    std::vector<double> wide(2);
    expect_too_many(error([&] { sum(std::span<const double>{}, half, wide, how); }));
    const auto product = [&](const MatrixSizes& sizes) {
        return error([&] { matmul(none, none, std::span<float>{}, sizes, how); });
    };
    for (const MatrixSizes& sizes :
         {MatrixSizes{half, 2, 1, 1}, MatrixSizes{root, root, 1, 1}, MatrixSizes{2, 0, 1, half}})
        expect_too_many(product(sizes));
    for (const MatrixSizes& sizes : {MatrixSizes{1, half, 2, 1}, MatrixSizes{root, 1, root, 1}})
        EXPECT_NE(product(sizes), "");  // one factor alone is already too large
    EXPECT_EQ(error([&] { sum(three, 2, out, how); }), "x has 3 numbers; the given sizes need 4");
}

TEST(CppSizes, Blocks) {
    const BlockQuantizer q{block_format("mxfp4")};
    std::vector<float> none;
    const BlockCodes codes;
    const std::vector<std::vector<std::size_t>> shapes = {
        {half, 2}, {root, root}, {2, root, half}, {0, half, 2}};
    for (const std::vector<std::size_t>& shape : shapes) {
        for (const int axis : {0, 1, -1}) {
            expect_too_many(error([&] { q(none, none, shape, axis); }));
            expect_too_many(error([&] { (void)q.encode(none, shape, axis); }));
            expect_too_many(error([&] { q.decode(codes, none, shape, axis); }));
        }
    }
    EXPECT_EQ(error([&] { q(none, none, std::vector<std::size_t>{half, 0}, 0); }), "");
}

TEST(CppSizes, Views) {
    const Quantizer q{format("e4m3")};
    const std::size_t shape[] = {half, 2};
    const std::ptrdiff_t strides[] = {2, 1};
    float x = 1, y = 1;
    expect_too_many(error([&] {
        q(StridedView<const float>{&x, shape, strides}, StridedView<float>{&y, shape, strides});
    }));
}

TEST(CppSizes, AllReduces) {
    std::vector<double> out(2), none;
    expect_too_many(error([&] { allreduce({}, half, out, format("e4m3")); }));
    EXPECT_NE(error([&] { allreduce({}, root, none, format("e4m3")); }).find("2^31"),
              std::string::npos);
}

TEST(CppSizes, Exchanges) {
    const std::vector<float> row(10, 1.0f);
    const std::vector<std::span<const float>> rows = {row, row};
    Memory memory;
    EXPECT_EQ(error([&] { exchange("powersgd", rows, {.shape = {-1, -10}}, memory); }),
              "the shape (-1, -10) has a negative length; lengths are 0 or more");
    expect_too_many(error(
        [&] { exchange("powersgd", rows, {.shape = {std::int64_t{1} << 62, 4, 10}}, memory); }));
    EXPECT_EQ(error([] { TrainingExchange("sign", {{"fc", "linear", {-3, 2}}}, 2); }),
              "the shape of 'fc' (-3, 2) has a negative length; lengths are 0 or more");
    expect_too_many(error([] { TrainingExchange("sign", {{"fc", "linear", {1LL << 62, 4}}}, 2); }));
    for (const int workers : {0, -1})
        EXPECT_NE(error([&] { TrainingExchange("sign", {{"fc", "linear", {2}}}, workers); }), "");
}

// What moves leaves an object that works, or one that says so.
template <class T>
constexpr bool is_never_empty =
    std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T> &&
    !std::is_default_constructible_v<T> && !std::is_constructible_v<T, std::nullptr_t>;
static_assert(is_never_empty<Quantizer> && is_never_empty<Trace> && is_never_empty<Results> &&
              is_never_empty<BlockQuantizer>);

TEST(CppStates, MovedFromObjectsWork) {
    Quantizer q{format("e4m3")}, narrow{format("e2m1fn")};
    const Quantizer other = std::move(q);
    EXPECT_EQ(q(0.1f), other(0.1f));
    narrow = std::move(q);
    EXPECT_EQ(q(0.1f), narrow(0.1f));
    BlockQuantizer blocks{block_format("mxfp4")};
    const BlockQuantizer moved = std::move(blocks);
    std::vector<float> x(40, 1.1f), y = x;
    blocks(x, x);
    moved(y, y);
    EXPECT_EQ(x, y);
    Trace trace = open_trace(APSCOPE_ROOT "/notebooks/data/digits");
    const Trace same = std::move(trace);
    EXPECT_EQ(trace.name(), same.name());
    Results results = replay(same, {"none:e4m3"}, {.topologies = {"ring"}, .end_step = 1});
    const Results kept = std::move(results);
    EXPECT_EQ(results.size(), kept.size());
}

TEST(CppStates, AMovedExchangeSaysSo) {
    const std::vector<float> row = {1.0f, 2.0f};
    std::vector<float> out(2);
    TrainedStep step;
    step.gradients = {{std::span(row)}};
    step.out = {std::span(out)};
    TrainingExchange exchange("sign", {{"fc", "linear", {2}}}, 1);
    TrainingExchange moved = std::move(exchange);
    const std::string expected = "this TrainingExchange was moved from; use the object that it was "
                                 "moved to, or assign another";
    EXPECT_EQ(error([&] { exchange.run(step); }), expected);
    EXPECT_EQ(error([&] { (void)exchange.memory(); }), expected);
    EXPECT_EQ(error([&] { exchange.set_memory({}); }), expected);
    exchange = std::move(moved);
    EXPECT_EQ(error([&] { exchange.run(step); }), "");
}

TEST(CppStates, ADefaultViewIsEmpty) {
    const Quantizer q{format("e4m3")};
    q(StridedView<const float>{}, StridedView<float>{});
    q(StridedView<const double>{}, StridedView<double>{});
    const std::size_t shape[] = {2};
    const std::ptrdiff_t strides[] = {1};
    EXPECT_EQ(error([&] {
                  q(StridedView<const float>{nullptr, shape, strides},
                    StridedView<float>{nullptr, shape, strides});
              }),
              "a view of 2 elements has no data; give a pointer to the first");
    float one = 0.1f;
    EXPECT_NE(error([&] { q(StridedView<const float>{}, StridedView<float>{&one, {}, {}}); }), "");
}

TEST(CppOverlap, PartsAreRefused) {
    const Quantizer q{format("e4m3")};
    std::vector<float> x(100, 0.1f);
    const std::span<float> low(x.data(), 60), high(x.data() + 40, 60);
    const std::string expected =
        "the output overlaps the input in part; give the input itself, or another array";
    const Rounding how{.format = format("e4m3")};
    const Summation sums{.format = format("e4m3")};
    EXPECT_EQ(error([&] { q(low, high); }), expected);
    EXPECT_EQ(error([&] { q.scaled(2.0, high, low); }), expected);
    EXPECT_EQ(error([&] { BlockQuantizer{block_format("mxfp4")}(low, high); }), expected);
    EXPECT_EQ(error([&] { arithmetic("add", low, low, {}, high, how); }), expected);
    EXPECT_EQ(error([&] { sum(low, 2, std::span(x).subspan(10, 30), sums); }), expected);
    EXPECT_NE(error([&] {
                  matmul(std::span<const float>(low), std::span<const float>(high).first(60),
                         std::span(x).first(1), {.terms = 60}, sums);
              }),
              "");
    q(low, low);
    EXPECT_EQ(x[0], q(0.1f));
    q(low.first(40), high.first(40));  // side by side
}

// A view whose output overlaps its input gives what a copy of the input gives.
TEST(CppOverlap, ViewsReadBeforeTheyWrite) {
    const Quantizer q(format("e4m3"), {.rounding = RoundingMode::stochastic}, 3, 2);
    constexpr std::size_t rows = 150, columns = 170, shift = 7;
    std::vector<float> x(rows * columns + shift);
    std::iota(x.begin(), x.end(), 0.37f);
    const std::size_t shape[] = {rows, columns};
    const std::ptrdiff_t plain[] = {columns, 1}, back[] = {-std::ptrdiff_t{columns}, -1};
    const auto run = [&](const float* from, std::span<const std::ptrdiff_t> of, float* to,
                         std::span<const std::ptrdiff_t> onto) {
        q(StridedView<const float>{from, shape, of}, StridedView<float>{to, shape, onto});
    };
    const std::vector<float> given = x;
    std::vector<float> expected(x.size(), 0.0f);
    run(given.data(), plain, expected.data() + rows * columns - 1, back);
    run(x.data(), plain, x.data() + rows * columns - 1, back);
    EXPECT_TRUE(std::equal(x.begin(), x.end() - shift, expected.begin()));
    x = given;
    run(given.data(), plain, expected.data() + shift, plain);
    run(x.data(), plain, x.data() + shift, plain);
    EXPECT_TRUE(std::equal(x.begin() + shift, x.end(), expected.begin() + shift));
    x = given;
    q(std::span<const float>(given).first(rows * columns),
      std::span(expected).first(rows * columns));
    run(x.data(), plain, x.data(), plain);
    EXPECT_TRUE(std::equal(x.begin(), x.end() - shift, expected.begin()));
}

// Every thread count and layout of rows gives the bits of one span; the last of the elements that
// share a place of the output stays.
TEST(CppOverlap, LayoutsAndThreadsGiveTheSameBits) {
    constexpr std::size_t planes = 3, rows = 70, columns = 101, padded = 128;
    const std::size_t shape[] = {planes, rows, columns};
    const std::ptrdiff_t wide[] = {rows * padded, padded, 1},
                         plain[] = {rows * columns, columns, 1},
                         turned[] = {1, columns * planes, planes}, same[] = {0, 0, 1};
    std::vector<float> x(planes * rows * columns);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::ldexp(static_cast<float>(i * 7919 % 10007) - 5000.0f,
                          static_cast<int>(i % 20) - 20);
    for (const int threads : {1, 2, 0}) {
        const Quantizer q(format("e4m3"), {.rounding = RoundingMode::stochastic}, 3, threads);
        std::vector<float> expected(x.size());
        q(x, expected);
        using Layout = std::pair<std::span<const std::ptrdiff_t>, std::size_t>;
        for (const auto& [strides, size] : {Layout(wide, planes * rows * padded),
                                            Layout(plain, x.size()), Layout(turned, x.size())}) {
            std::vector<float> from(size), to(size, 0.0f), back(x.size());
            const auto at = [&](std::size_t i) {
                return i / (rows * columns) * static_cast<std::size_t>(strides[0]) +
                       i / columns % rows * static_cast<std::size_t>(strides[1]) +
                       i % columns * static_cast<std::size_t>(strides[2]);
            };
            for (std::size_t i = 0; i < x.size(); ++i) from[at(i)] = x[i];
            q(StridedView<const float>{from.data(), shape, strides},
              StridedView<float>{to.data(), shape, strides});
            for (std::size_t i = 0; i < x.size(); ++i) back[i] = to[at(i)];
            EXPECT_EQ(back, expected) << strides[0] << " " << threads;
        }
        std::vector<float> last(columns);
        q(StridedView<const float>{x.data(), shape, plain},
          StridedView<float>{last.data(), shape, same});
        EXPECT_TRUE(std::equal(last.begin(), last.end(), expected.end() - columns));
    }
}

TEST(CppRounding, EverySpellingOfSpecs) {
    for (const char* name : {"rne", "RNE", "Ties_To_Even", "roundTiesToEven", "half-even"})
        EXPECT_EQ(parse_rounding(name), RoundingMode::ties_to_even) << name;
    for (const char* name : {"sr", "stochastic_a", "StochasticA", "stochastic rounding"})
        EXPECT_EQ(parse_rounding(name), RoundingMode::stochastic) << name;
    EXPECT_EQ(parse_rounding("truncate"), RoundingMode::toward_zero);
    EXPECT_EQ(parse_rounding("rup"), RoundingMode::toward_positive);
    for (const char* name : {"nearest", "RN", "round_to_nearest"})
        EXPECT_NE(error([&] { parse_rounding(name); }).find("does not say where ties go"),
                  std::string::npos)
            << name;
    EXPECT_NE(error([] { parse_rounding("stochastik"); }).find("did you mean stochastic"),
              std::string::npos);
    EXPECT_NE(error([] { parse_rounding("up-ish"); }).find("use one of ties_to_even"),
              std::string::npos);
}

// The limits of formats are assembled from bits.
TEST(CppFormats, LimitsOfACallerWhoFlushesSubnormalNumbers) {
    const FloatFormat deep = format("e11m52"), narrow = format("fp32");
    std::vector<std::uint64_t> codes = {1,
                                        2,
                                        3,
                                        1000,
                                        (std::uint64_t{1} << 52) - 1,
                                        std::uint64_t{1} << 52,
                                        deep.top_finite_code()};
#if defined(__SSE__)
    const unsigned control = _mm_getcsr();
    _mm_setcsr(control | 0x8040);
#endif
    std::vector<std::uint64_t> bits;
    for (const std::uint64_t code : codes)
        bits.push_back(std::bit_cast<std::uint64_t>(deep.magnitude(code)));
    const auto smallest = std::bit_cast<std::uint64_t>(deep.smallest_positive()),
               normal = std::bit_cast<std::uint64_t>(deep.smallest_normal());
    const int exponent = narrow.emax();
    const Quantizer flushing(deep, {.underflow = Underflow::flush_result});
#if defined(__SSE__)
    _mm_setcsr(control);
#endif
    EXPECT_EQ(bits, codes);  // fp64's codes are its bits
    EXPECT_EQ(smallest, 1u);
    EXPECT_EQ(normal, std::uint64_t{1} << 52);
    EXPECT_EQ(exponent, 127);
}

}  // namespace
