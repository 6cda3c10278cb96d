// The loops of the block casts give the bits of the rule: every format, scale rule, rounding and
// overflow, on every instruction set, with every kind of block and of shape.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/bits.h"
#include "core/named_formats.h"
#include "emulation/blocks/blocks.h"
#include "emulation/machine/streaming.h"
#include "tests/support/on_level.h"
#include "tests/support/same_bits.h"

namespace apscope::detail {
namespace {

std::vector<BlockFormat> formats() {
    std::vector<BlockFormat> all;
    std::vector<std::string> names;
    for (const NamedBlockFormat& row : named_block_formats()) names.emplace_back(row.name);
    for (const char* name : {"bfp:8:16",
                             "bfp:4:24",
                             "bfp:2:32",
                             "blocks:int2",
                             "blocks:int5,block=48",
                             "blocks:e4m3fnuz",
                             "blocks:e4m3",
                             "blocks:e3m4,block=7",
                             "blocks:e5m2,block=1",
                             "blocks:e2m1,block=777",
                             "blocks:e4m3b60",
                             "blocks:e4m3b-60",
                             "blocks:e7m0",
                             "blocks:e6m0",
                             "blocks:binary8p3se",
                             "blocks:binary8p1se",
                             "blocks:binary8p7se",
                             "blocks:e4m3nosub",
                             "blocks:e4m3fn,scale=e4m0fnu",
                             "blocks:e4m3,scale=e4m0fnub-60",
                             "blocks:e5m2,scale=e8m0fnu,block=2100",
                             "blocks:e4m3fn,scale=e4m3fn,rule=ratio,block=16",
                             "blocks:e4m3fn,scale=e5m2,rule=ratio,block=5,tensor",
                             "blocks:int4,scale=e4m3fn,rule=ratio",
                             "blocks:e3m2fn,scale=e4m4u,rule=ratio,block=48,tensor",
                             "nvfp4,block=33",
                             "nvfp4,scale=e4m3nosub"}) {
        names.emplace_back(name);
    }
    for (const std::string& name : names) {
        const BlockFormat base = parse_block_format(name);
        for (int rule = 0; rule < scale_rule_count; ++rule) {
            BlockFormat f = base;
            f.rule = static_cast<ScaleRule>(rule);
            if ((f.rule == ScaleRule::ratio) != (base.rule == ScaleRule::ratio)) continue;
            all.push_back(f);
            // Besides the default, one of the other rules for non-finite elements, in turn.
            f.nonfinite = f.rule == ScaleRule::ratio
                              ? BlockNonfinite::transformer_engine
                              : static_cast<BlockNonfinite>(1 + all.size() / 2 % 3);
            all.push_back(f);
        }
    }
    return all;
}

template <class Real>
Real special(std::uint64_t word) {
    using Limits = std::numeric_limits<Real>;
    const Real values[] = {0,
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::max(),
                           Limits::min(),
                           Limits::denorm_min(),
                           Real{1},
                           Real{448}};
    const Real x = values[word % 8];
    return (word >> 8) % 2 ? -x : x;
}

// Runs of 16 numbers around one binade, among them: the first and the last binades, subnormal
// numbers, zeros, numbers of few bits (exact ones, ties, where a scale rule takes the next power of
// two) and their neighbours, and now and then something special.
template <class Real>
std::vector<Real> data(std::size_t count, std::uint64_t seed) {
    using Limits = std::numeric_limits<Real>;
    std::vector<Real> x(count);
    const RandomStream stream = array_stream(seed, 64);
    const auto between = [](std::uint64_t word, int low, int high) {
        return low + static_cast<int>(word % static_cast<std::uint64_t>(high - low));
    };
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t run = stream.at(i / 16 + 1000000), word = stream.at(i);
        const auto kind = run % 16;
        int binade = between(run >> 8, -65, 65);
        if (kind == 10) binade = between(run >> 8, Limits::min_exponent, Limits::max_exponent);
        if (kind == 11) binade = between(run >> 8, Limits::max_exponent - 28, Limits::max_exponent);
        if (kind >= 12) binade = between(run >> 8, Limits::min_exponent, Limits::min_exponent + 40);
        const double fraction = 1 + (kind % 2 ? static_cast<double>(word % 64) / 64
                                              : static_cast<double>(word >> 12) * 0x1p-52);
        x[i] = static_cast<Real>(std::ldexp(
            fraction, binade - static_cast<int>((word >> 8) % (kind % 3 == 0 ? 3 : 20))));
        if (kind % 2 && (run >> 40) % 2)
            x[i] = std::nextafter(x[i], (run >> 41) % 2 ? Limits::infinity() : Real{0});
        if (kind == 14) x[i] = 0;
        if (kind == 15)
            x[i] = std::ldexp(static_cast<Real>(word % 512), Limits::min_exponent - Limits::digits);
        if ((word >> 20) % 2) x[i] = -x[i];
        if (run % 13 == 0 && (word >> 32) % 24 == 0) x[i] = special<Real>(word >> 40);
    }
    return x;
}

constexpr BlockShape shapes[] = {{1, 960, 1}, {3, 351, 1}, {150, 5, 1}, {2, 35, 13},
                                 {3, 91, 3},  {1, 4, 270}, {1, 1151, 1}};

// The first `offset` of `all` are not part of the array: unaligned ones are compared too.
template <class Real>
void compare(const BlockFormat& f, const Projection& p, BlockShape shape, std::uint64_t seed,
             bool in_place, const std::vector<Real>& all, std::size_t offset) {
    const std::string what = f.name() + " " + std::string(to_string(p.rounding)) + " " +
                             std::string(to_string(p.overflow)) + " " +
                             std::to_string(p.random_bits) + " (" + std::to_string(shape.outer) +
                             ", " + std::to_string(shape.length) + ", " +
                             std::to_string(shape.inner) + ")";
    const std::size_t n = shape.size();
    const std::span<const Real> in = std::span<const Real>(all).subspan(offset);
    std::vector<Real> wanted(n), got(all);
    quantize_blocks_by_rule(in, wanted, shape, f, p, seed);
    if (in_place) {
        quantize_blocks(std::span<const Real>(got).subspan(offset),
                        std::span<Real>(got).subspan(offset), shape, f, p, seed, 1);
        got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(offset));
    } else {
        got.assign(n, Real{-1});
        quantize_blocks(in, got, shape, f, p, seed, seed % 3 == 0 ? 2 : 1);
    }
    test::expect_same(in, got, wanted, what);

    BlockSettings settings{array_stream(seed, p.random_bits), {}};
    if (f.rule == ScaleRule::ratio && seed % 2) {
        settings.divides_first = seed % 4 == 1;
        settings.stretch = 1.25f;
        settings.scale_range = 256;
        settings.amax = seed % 8 == 3 ? std::optional<float>(3.5f) : std::nullopt;
    }
    std::vector<std::uint8_t> codes(n, 0xEE), scales(shape.scales(f), 0xEE), rule_codes(n),
        rule_scales(scales.size());
    const float s = encode_blocks(in, codes, scales, shape, f, p, settings, 1);
    const float rule_s = encode_blocks_by_rule(in, rule_codes, rule_scales, shape, f, p, settings);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(s), std::bit_cast<std::uint32_t>(rule_s)) << what;
    EXPECT_EQ(codes, rule_codes) << what;
    EXPECT_EQ(scales, rule_scales) << what;
}

template <class Real>
void compare(const BlockFormat& f, const Projection& p, BlockShape shape, std::uint64_t seed,
             bool in_place) {
    const std::size_t offset = seed % 4;
    compare<Real>(f, p, shape, seed, in_place, data<Real>(shape.size() + offset, seed), offset);
}

class BlockPaths : public OnLevel {
protected:
    // Every format with every rounding and overflow; the shapes in turn.
    template <class Real>
    void everything() {
        std::uint64_t seed = 0;
        std::size_t compared = 0;
        for (const BlockFormat& f : formats()) {
            if (f.rule == ScaleRule::ratio && !std::is_same_v<Real, float>) continue;
            for (int mode = 0; mode < static_cast<int>(RoundingMode::stochastic_exact); ++mode) {
                std::vector<int> widths{32};
                if (is_stochastic(static_cast<RoundingMode>(mode)))
                    widths = {1, 16, 24, 25, 32, 40};
                for (int overflow = 0; overflow < overflow_count; ++overflow) {
                    for (const int bits : widths) {
                        const Projection p{static_cast<RoundingMode>(mode),
                                           static_cast<Overflow>(overflow), bits};
                        try {
                            validate(p, f.element);
                        } catch (const std::invalid_argument&) {
                            continue;
                        }
                        compare<Real>(f, p, shapes[seed % std::size(shapes)], seed, seed % 5 == 0);
                        ++seed;
                        ++compared;
                        if (HasFailure()) return;
                    }
                }
            }
        }
        EXPECT_GT(compared, 2000u);
    }
};

TEST_P(BlockPaths, EqualTheRule) { everything<float>(); }
TEST_P(BlockPaths, Fp64EqualsTheRule) { everything<double>(); }

TEST_P(BlockPaths, EveryShapeEqualsTheRule) {
    for (const char* name : {"mxfp8_e4m3", "mxfp4,rule=rceil", "mxint8,rule=even", "nvfp4",
                             "mxfp8_e5m2,rule=nearest", "bfp:8:16", "mxfp6_e2m3,block=45"}) {
        for (const RoundingMode mode : {RoundingMode::ties_to_even, RoundingMode::toward_negative,
                                        RoundingMode::stochastic}) {
            std::uint64_t seed = 100;
            for (const BlockShape shape :
                 {BlockShape{1, 0, 1}, BlockShape{0, 5, 1}, BlockShape{3, 7, 0},
                  BlockShape{1, 1, 1}, BlockShape{70, 1, 1}, BlockShape{1, 40000, 1},
                  BlockShape{2, 32, 300}, BlockShape{1, 33, 1025}, BlockShape{9, 2, 2},
                  BlockShape{4, 2049, 1}, BlockShape{300, 31, 1}, BlockShape{30, 97, 5},
                  BlockShape{1, 2200, 64}}) {
                compare<float>(parse_block_format(name), {mode, Overflow::saturate, 16}, shape,
                               seed, seed % 2 == 0);
                ++seed;
            }
        }
    }
}

// Fractions of a quantum next to the smallest one that the element's random integer rounds up.
TEST_P(BlockPaths, DrawsDecideAtTheLastBit) {
    const BlockFormat f = parse_block_format("mxfp8_e4m3");
    for (const int bits : {1, 8, 16, 23, 24, 25, 26, 31, 32}) {
        for (const int trial : {0, 1, 2, 3, 4, 5}) {
            const int quanta = trial % 3,
                      k = trial < 3 ? -40 * trial : trial - 120;  // a quantum of 2^-126 and more
            const RandomStream stream = array_stream(3, bits);
            std::vector<float> x(4096);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double up_from =
                    1 - std::ldexp(static_cast<double>(stream.at(i) >> (64 - bits)), -bits);
                const float exact = static_cast<float>(std::ldexp(quanta + up_from, k - 9));
                x[i] = i % 32 == 0  ? std::ldexp(256.0f, k)
                       : i % 3 == 0 ? exact
                                    : std::nextafter(exact, i % 3 == 1 ? 0.0f : 1.0f);
            }
            compare<float>(f, {RoundingMode::stochastic, Overflow::saturate, bits},
                           {1, x.size(), 1}, 3, false, x, 0);
        }
    }
}

TEST_P(BlockPaths, DecodingEqualsTheRule) {
    for (const BlockFormat& f : formats()) {
        for (const BlockShape shape : shapes) {
            std::vector<std::uint8_t> codes(shape.size()), scales(shape.scales(f));
            const RandomStream stream = array_stream(7, 64);
            const auto fill = [&](std::vector<std::uint8_t>& out, int bits, std::uint64_t from) {
                for (std::size_t i = 0; i < out.size(); ++i)
                    out[i] = static_cast<std::uint8_t>(stream.at(from + i) & ((1u << bits) - 1));
            };
            fill(codes, f.element.storage_bits(), 0);
            fill(scales, f.scale.storage_bits(), 1 << 20);
            for (const float s :
                 {1.0f, 0x1.8p100f, 0x1p-130f, 0.0f, std::numeric_limits<float>::infinity()}) {
                std::vector<float> got(shape.size()), wanted(shape.size());
                decode_blocks(codes, scales, s, got, shape, f, 1);
                decode_blocks_by_rule(codes, scales, s, wanted, shape, f);
                test::expect_same(got, got, wanted, f.name() + " decoded");
                if (HasFailure()) return;
            }
        }
    }
}

APSCOPE_ON_EVERY_LEVEL(BlockPaths);

TEST(BlockPaths, TheNamedFormatsHaveLoops) {
    for (const NamedBlockFormat& row : named_block_formats()) {
        for (int mode = 0; mode <= static_cast<int>(RoundingMode::stochastic); ++mode) {
            EXPECT_TRUE(blocks_have_loops(row.format,
                                          {static_cast<RoundingMode>(mode), Overflow::saturate}))
                << row.name;
        }
        EXPECT_FALSE(
            blocks_have_loops(row.format, {RoundingMode::stochastic_b, Overflow::saturate}))
            << row.name;
    }
    EXPECT_TRUE(blocks_have_loops(parse_block_format("bfp:8:16"), {}));
    EXPECT_FALSE(blocks_have_loops(parse_block_format("blocks:e4m3nosub"), {}));
}

TEST(BlockPaths, StreamedResultsAreThoseOfSmallOnes) {
    const std::size_t rows = 3000, length = streaming_bytes / sizeof(float) / rows + 3;
    std::vector<float> in(rows * length), out(in.size()), line(length);
    for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = std::ldexp(static_cast<float>(i % 1013) - 500.0f, static_cast<int>(i % 17) - 12);
    in[5] = std::numeric_limits<float>::quiet_NaN();
    const BlockFormat f = parse_block_format("mxfp4");
    quantize_blocks(in, out, {rows, length, 1}, f, {}, 0, 2);
    for (std::size_t row = 0; row < rows; row += 100) {
        quantize_blocks(std::span<const float>(in).subspan(row * length, length), line,
                        {1, length, 1}, f, {});
        for (std::size_t i = 0; i < length; ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(out[row * length + i]),
                      std::bit_cast<std::uint32_t>(line[i]))
                << row << " " << i;
        }
    }
}

TEST(BlockPaths, StreamedDecodingEqualsTheRule) {
    const std::size_t rows = 3000, length = streaming_bytes / sizeof(float) / rows + 3;
    std::vector<std::uint8_t> codes(rows * length);
    std::vector<float> out(codes.size()), wanted(codes.size());
    for (const char* name : {"mxfp8_e4m3", "nvfp4"}) {
        const BlockFormat f = parse_block_format(name);
        for (const BlockShape shape : {BlockShape{rows, length, 1}, BlockShape{1, rows, length},
                                       BlockShape{1, 1, rows * length}}) {
            std::vector<std::uint8_t> scales(shape.scales(f));
            for (std::size_t i = 0; i < codes.size(); ++i)
                codes[i] = static_cast<std::uint8_t>(i % 251 % (1u << f.element.storage_bits()));
            for (std::size_t i = 0; i < scales.size(); ++i)
                scales[i] = static_cast<std::uint8_t>(i % 255 % (1u << f.scale.storage_bits()));
            const float tensor_scale = f.tensor_scale ? 3.0f : 1.0f;
            decode_blocks(codes, scales, tensor_scale, out, shape, f, 2);
            decode_blocks_by_rule(codes, scales, tensor_scale, wanted, shape, f);
            ASSERT_EQ(std::memcmp(out.data(), wanted.data(), out.size() * sizeof(float)), 0)
                << name << " " << shape.inner;
        }
    }
}

}  // namespace
}  // namespace apscope::detail
