// Stochastic casts of fp32 numbers give the bits of the rule with each element's own word, on every
// instruction set: every number of random bits that is drawn in bulk, every length up to a few
// buffers, arrays that begin anywhere in a Philox block.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

// Numbers over a format's range, with some numbers beyond it, zeros, infinities and NaNs, and long
// runs without these.
std::vector<float> numbers(const FloatFormat& f, std::size_t count) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0.0, 1.0);
    std::uniform_real_distribution<double> place(std::log2(f.smallest_positive()) - 3,
                                                 std::log2(f.largest()));
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) {
        x[i] = static_cast<float>(std::copysign(std::exp2(place(random)), normal(random)));
        if (i % 1024 > 700 && i % 37 == 0) {
            const float others[] = {0.0f,       -0.0f,     static_cast<float>(f.largest()) * 1.5f,
                                    -HUGE_VALF, HUGE_VALF, std::nanf(""),
                                    1e-42f};
            x[i] = others[i / 37 % 7];
        }
    }
    return x;
}

class StochasticLengths : public OnLevel {};

template <RoundingMode M>
void expect_the_rule(const char* name, const std::vector<std::size_t>& lengths) {
    constexpr std::size_t starts = 17;
    const FloatFormat f = parse_format(name);
    const std::vector<float> in = numbers(f, lengths.back() + starts);
    std::vector<float> wanted(in.size()), got(in.size());
    for (int bits = 1; bits <= 32; ++bits) {
        const Projection p{M, Overflow::ieee, bits};
        const RandomStream stream = array_stream(9, bits);
        const Cast<float> cast = make_cast<float>(f, p);
        for (std::size_t i = 0; i < in.size(); ++i)
            wanted[i] = round_to_format<M, float>(in[i], cast, stream.at(i));
        for (const std::size_t length : lengths) {
            const std::size_t first = (5 * length + static_cast<std::size_t>(bits)) % starts;
            const RandomSource random{9, first, {}};
            const auto part = std::span<float>(got).subspan(first, length);
            const auto expect = [&](const char* where) {
                ASSERT_EQ(std::memcmp(part.data(), wanted.data() + first, length * sizeof(float)),
                          0)
                    << name << " " << to_string(M) << " " << bits << " bits, " << length << " from "
                    << first << where;
            };
            quantize(std::span<const float>(in).subspan(first, length), part, f, p, random);
            expect("");
            std::memcpy(part.data(), in.data() + first, length * sizeof(float));
            quantize(part, part, f, p, random);
            expect(", in place");
            if (testing::Test::HasFatalFailure()) return;
        }
    }
}

// One format per loop: the path scaled with and without -0, a format with more kept than random
// bits, the path split with and without a second half, the rule.
TEST_P(StochasticLengths, EveryLengthAndNumberOfBits) {
    std::vector<std::size_t> lengths;
    for (std::size_t n = 0; n <= 1100; ++n) lengths.push_back(n);
    for (const std::size_t n : {2047, 2048, 2049, 2060, 4096, 4500}) lengths.push_back(n);
    expect_the_rule<RoundingMode::stochastic>("e4m3", lengths);
    std::erase_if(lengths, [](std::size_t n) { return n > 70 && n % 61 != 0 && n < 2000; });
    for (const char* name : {"e5m2", "fp16", "e4m3fnuz", "bf16", "e5m16", "e8m1", "e4m3u"})
        expect_the_rule<RoundingMode::stochastic>(name, lengths);
    for (const char* name : {"e4m3", "bf16", "e4m3u"})
        expect_the_rule<RoundingMode::stochastic_equal>(name, lengths);
}

APSCOPE_ON_EVERY_LEVEL(StochasticLengths);

}  // namespace
}  // namespace apscope::detail
