// Every path of quantize() and the code loops against the rule and the scalar codec, bit for bit:
// every named format of fp32 numbers and some more, every rounding except stochastic_exact, every
// instruction set of this machine, at every value and midpoint with their neighbours, and at random
// patterns inside and outside the format's range.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/codec.h"
#include "core/named_formats.h"
#include "emulation/cast/code_kernels.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/streaming.h"
#include "tests/support/on_level.h"
#include "tests/support/same_bits.h"

namespace apscope::detail {
namespace {

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::vector<FloatFormat> formats() {
    std::vector<FloatFormat> all;
    for (const NamedFormat& f : named_formats()) {
        if (f.format.fits_fp32()) all.push_back(f.format);
    }
    for (const char* name : {"e1m6", "e2m5", "e8m1", "e7m12", "e7m0", "e6m21", "e6m22", "e4m3b20",
                             "e4m3b-20", "e4m3b60", "e4m3b100", "e2m1b40", "e6m9", "e3m22", "e8m22",
                             "e5m0", "e4m3u", "e5m2nosub", "e3m3fnuz"}) {
        all.push_back(parse_format(name));
    }
    return all;
}

std::vector<float> inputs(const FloatFormat& f, std::size_t random) {
    std::vector<float> x;
    const auto add = [&](std::uint32_t magnitude) {
        for (const std::uint32_t m : {magnitude - 1, magnitude, magnitude + 1}) {
            x.push_back(std::bit_cast<float>(m & 0x7FFFFFFF));
            x.push_back(std::bit_cast<float>((m & 0x7FFFFFFF) | 0x80000000));
        }
    };
    for (const std::uint32_t m : {0u, 1u, 0x7FFFFFu, 0x800000u, 0x7F7FFFFFu, 0x7F800000u,
                                  0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu})
        add(m);
    const std::uint64_t step =
        f.storage_bits() <= 12 ? 1 : std::uint64_t{1} << (f.storage_bits() - 12);
    for (std::uint64_t code = 0;
         f.magnitude(code) <= f.largest() && code <= std::uint64_t{1} << (f.storage_bits() - 1);
         code += step) {
        const double low = f.magnitude(code), high = f.magnitude(code + 1);
        add(bits_of(static_cast<float>(low)));
        add(bits_of(static_cast<float>((low + high) / 2)));
    }
    add(bits_of(static_cast<float>(f.largest())));
    const RandomStream stream = array_stream(11, 64);
    const auto min = bits_of(static_cast<float>(f.smallest_positive())),
               max = bits_of(static_cast<float>(f.largest()));
    for (std::size_t i = 0; i < random; ++i) {
        const std::uint64_t word = stream.at(i);
        std::uint32_t bits = static_cast<std::uint32_t>(word);
        if (i % 2 == 0)
            bits = (bits & 0x80000000) |
                   (min - std::min(min, 1u << 25) +
                    static_cast<std::uint32_t>((word >> 32) % (max - min + (1u << 25))));
        x.push_back(std::bit_cast<float>(bits));
    }
    return x;
}

class QuantizePaths : public OnLevel {};

TEST_P(QuantizePaths, EqualTheRule) {
    for (const FloatFormat& f : formats()) {
        std::vector<float> in = inputs(f, 4000);
        // Also sorted by magnitude: the loops treat whole buffers differently if a number
        // overflows.
        std::vector<float> sorted = in;
        std::stable_sort(sorted.begin(), sorted.end(), [](float a, float b) {
            return (bits_of(a) & 0x7FFFFFFF) < (bits_of(b) & 0x7FFFFFFF);
        });
        in.insert(in.end(), sorted.begin(), sorted.end());
        std::vector<float> got(in.size()), wanted(in.size());
        for (int mode = 0; mode < static_cast<int>(RoundingMode::stochastic_exact); ++mode) {
            Projection p;
            p.rounding = static_cast<RoundingMode>(mode);
            std::vector<int> widths{32};
            if (is_stochastic(p.rounding)) widths = {1, 7, 16, 17, 31, 32, 40};
            for (const Overflow overflow :
                 {Overflow::ieee, Overflow::saturate, Overflow::propagate}) {
                p.overflow = overflow;
                for (const int bits : widths) {
                    p.random_bits = bits;
                    RandomSource random;
                    random.seed = 5;
                    random.first_element =
                        static_cast<std::uint64_t>(bits % 7);  // not at a block's begin
                    quantize(in, got, f, p, random);
                    quantize_by_rule(in, wanted, f, p, random);
                    const std::string what = f.name() + " " + std::string(to_string(p.rounding)) +
                                             " " + std::to_string(bits);
                    test::expect_same(in, got, wanted, what);
                    got = in;
                    quantize(got, got, f, p, random);
                    test::expect_same(in, got, wanted, what + " in place");
                }
            }
        }
    }
}

// fp64 numbers: the fp32 inputs, and the same with additional low bits.
TEST_P(QuantizePaths, Fp64EqualsTheRule) {
    std::vector<FloatFormat> all = formats();
    for (const char* name :
         {"e11m52", "e10m9", "e9m43", "e8m23", "e5m40", "e4m50", "e4m51", "e11m4", "e4m3b400"})
        all.push_back(parse_format(name));
    for (const FloatFormat& f : all) {
        std::vector<double> in;
        const RandomStream stream = array_stream(3, 64);
        const std::vector<float> narrow = f.fits_fp32() ? inputs(f, 2000) : std::vector<float>{};
        for (std::size_t i = 0; i < narrow.size(); ++i) {
            in.push_back(narrow[i]);
            for (const std::uint64_t more : {std::uint64_t{1}, stream.at(i) >> 35})
                in.push_back(std::bit_cast<double>(std::bit_cast<std::uint64_t>(in.back()) + more));
        }
        const auto min = std::bit_cast<std::uint64_t>(f.smallest_positive()),
                   max = std::bit_cast<std::uint64_t>(f.largest());
        for (std::size_t i = 0; i < 4000; ++i) {
            const std::uint64_t low = min - std::min(min, std::uint64_t{1} << 54);
            in.push_back(
                std::bit_cast<double>(low + stream.at(i) % (max - low + (std::uint64_t{1} << 50))) *
                (i % 3 == 0 ? -1 : 1));
            in.push_back(std::bit_cast<double>(stream.at(i + 4000)));
        }
        std::vector<double> got(in.size()), wanted(in.size());
        for (int mode = 0; mode < static_cast<int>(RoundingMode::stochastic); ++mode) {
            for (const Overflow overflow :
                 {Overflow::ieee, Overflow::saturate, Overflow::propagate}) {
                const Projection p{static_cast<RoundingMode>(mode), overflow};
                quantize(in, got, f, p);
                quantize_by_rule(in, wanted, f, p);
                test::expect_same(in, got, wanted,
                                  f.name() + " " + std::string(to_string(p.rounding)));
            }
        }
    }
}

TEST_P(QuantizePaths, CodesEqualTheScalarCodec) {
    for (const FloatFormat& f : formats()) {
        if (f.storage_bits() > 16) continue;
        const Codec codec = make_codec<float>(f);
        std::vector<std::uint16_t> codes(std::size_t{1} << f.storage_bits());
        for (std::size_t c = 0; c < codes.size(); ++c) codes[c] = static_cast<std::uint16_t>(c);
        std::vector<float> values(codes.size());
        decode(std::span<const std::uint16_t>(codes), std::span<float>(values), f);
        std::vector<float> finite;
        for (std::size_t c = 0; c < codes.size(); ++c) {
            const float wanted = decode_one<float>(static_cast<std::uint32_t>(c), codec);
            EXPECT_EQ(bits_of(values[c]), bits_of(wanted)) << f.name() << " code " << c;
            if (f.has_nan() || wanted == wanted) finite.push_back(values[c]);
        }
        std::vector<std::uint16_t> back(finite.size());
        encode(std::span<const float>(finite), std::span<std::uint16_t>(back), f, {}, std::nullopt);
        for (std::size_t i = 0; i < finite.size(); ++i) {
            EXPECT_EQ(back[i], encode_one<float>(finite[i], codec))
                << f.name() << " value " << finite[i];
        }
    }
}

// Codes of numbers that must be rounded first: in one pass or two, with and without a number that
// overflows in the same buffer.
TEST_P(QuantizePaths, CodesOfAnyNumberAreThoseOfTheRule) {
    for (const FloatFormat& f : formats()) {
        if (f.storage_bits() > 16) continue;
        std::vector<float> in = inputs(f, 4000);
        if (!f.has_nan()) std::erase_if(in, [](float x) { return x != x; });
        const auto middle = std::stable_partition(
            in.begin(), in.end(), [&](float x) { return std::abs(x) < f.largest() / 2; });
        for (int k = 0; k < 3; ++k)
            in.insert(middle, in.begin(), in.begin() + 700);  // whole buffers without overflow
        std::vector<float> wanted(in.size());
        std::vector<std::uint16_t> codes(in.size());
        for (const RoundingMode mode :
             {RoundingMode::ties_to_even, RoundingMode::toward_zero, RoundingMode::stochastic}) {
            for (const Overflow overflow : {Overflow::ieee, Overflow::saturate, Overflow::propagate,
                                            Overflow::infinity, Overflow::nan}) {
                Projection p;
                p.rounding = mode;
                p.overflow = overflow;
                try {
                    validate(p, f);
                    quantize_by_rule(in, wanted, f, p);
                } catch (const std::invalid_argument&) {
                    continue;  // no infinity or NaN to overflow to
                }
                encode(std::span<const float>(in), std::span<std::uint16_t>(codes), f, p,
                       std::uint64_t{1});
                Codec codec = make_codec<float>(f);
                if (!f.has_nan()) codec.nan_code = 1;
                std::size_t wrong = 0;
                for (std::size_t i = 0; i < in.size(); ++i) {
                    if (codes[i] == encode_one<float>(wanted[i], codec) || ++wrong > 3) continue;
                    ADD_FAILURE() << f.name() << " " << to_string(mode) << " overflow "
                                  << static_cast<int>(overflow) << ": " << in[i] << " gives code "
                                  << codes[i] << ", the rule "
                                  << encode_one<float>(wanted[i], codec);
                }
            }
        }
    }
}

APSCOPE_ON_EVERY_LEVEL(QuantizePaths);

template <class Real>
class Streaming : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Streaming, Reals);

TYPED_TEST(Streaming, ResultsAreTheSameWhereverTheyBeginInALine) {
    using Real = TypeParam;
    constexpr std::size_t line = 64 / sizeof(Real);
    const FloatFormat f = parse_format("e4m3");
    std::vector<Real> in(3000 + line), out(3000 + 2 * line), wanted(3000);
    for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = std::ldexp(static_cast<Real>(i % 1013) - 500, static_cast<int>(i % 17) - 12);
    for (const RoundingMode mode :
         {RoundingMode::ties_to_even, RoundingMode::to_odd, RoundingMode::stochastic}) {
        Projection p;
        p.rounding = mode;
        for (const std::size_t count : {std::size_t{1023}, std::size_t{1024}, std::size_t{3000}}) {
            const std::span<const Real> from = std::span<const Real>(in).first(count);
            quantize_by_rule(from, std::span<Real>(wanted).first(count), f, p, {});
            for (std::size_t offset = 0; offset <= line; ++offset) {
                std::ranges::fill(out, Real{7});
                quantize(from, std::span<Real>(out).subspan(offset, count), f, p, {}, 1);
                for (std::size_t i = 0; i < out.size(); ++i) {
                    const bool own = i >= offset && i < offset + count;
                    ASSERT_EQ(out[i], own ? wanted[i - offset] : Real{7})
                        << to_string(mode) << ", " << count << " at " << offset << ": " << i;
                }
            }
        }
    }
}

TYPED_TEST(Streaming, LargeResultsAreThoseOfSmallOnes) {
    using Real = TypeParam;
    const std::size_t count = streaming_bytes / sizeof(Real) + 12345;
    std::vector<Real> in(count + 3), out(count + 3), piece(4096);
    for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = std::ldexp(static_cast<Real>(i % 1013) - 500, static_cast<int>(i % 17) - 12);
    for (const std::size_t offset :
         {std::size_t{0}, std::size_t{3}}) {  // one of the two does not start at a cache line,
                                              // whatever the vectors' addresses
        for (const RoundingMode mode : {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
            const FloatFormat f = parse_format("e4m3");
            Projection p;
            p.rounding = mode;
            std::ranges::fill(out, Real{7});
            quantize(std::span<const Real>(in).subspan(offset, count),
                     std::span<Real>(out).subspan(offset, count), f, p, {}, 2);
            for (std::size_t i = 0; i < out.size(); ++i) {
                if (i < offset || i >= offset + count) {  // outside of the output
                    ASSERT_EQ(out[i], 7) << i;
                }
            }
            for (std::size_t begin = 0; begin < count; begin += 4096) {
                const std::size_t n = std::min<std::size_t>(4096, count - begin);
                RandomSource random;
                random.first_element = begin;
                quantize(std::span<const Real>(in).subspan(offset + begin, n),
                         std::span<Real>(piece).first(n), f, p, random);
                ASSERT_EQ(std::memcmp(out.data() + offset + begin, piece.data(), n * sizeof(Real)),
                          0)
                    << begin;
            }
        }
    }
}

}  // namespace
}  // namespace apscope::detail
