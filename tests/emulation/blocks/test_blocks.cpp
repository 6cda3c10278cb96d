// Block formats as values, their scale exponents by integer arithmetic, and packing.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/block_format.h"
#include "emulation/blocks/blocks.h"
#include "emulation/cast/packing.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

BlockFormat with_rule(const char* name, ScaleRule rule) {
    BlockFormat f = parse_block_format(name);
    f.rule = rule;
    return f;
}

std::vector<float> quantized(const std::vector<float>& in, const char* name, int threads = 1) {
    std::vector<float> out(in.size());
    quantize_blocks(in, out, {1, in.size(), 1}, parse_block_format(name),
                    {RoundingMode::ties_to_even, Overflow::saturate}, 0, threads);
    return out;
}

}  // namespace

TEST(BlockFormat, NamesRoundTripAndHashesFollowEquality) {
    for (const NamedBlockFormat& row : named_block_formats()) {
        EXPECT_NO_THROW(validate(row.format));
        EXPECT_EQ(row.format.name(), row.name);
        for (int rule = 0; rule < scale_rule_count; ++rule) {
            BlockFormat f = row.format;
            f.rule = static_cast<ScaleRule>(rule);
            f.block_size = 7;
            if ((f.rule == ScaleRule::ratio) != (row.name == "nvfp4")) {
                EXPECT_THROW(validate(f), std::invalid_argument);
                continue;
            }
            EXPECT_EQ(parse_block_format(f.name()), f) << f.name();
            EXPECT_EQ(parse_block_format(f.name()).hash(), f.hash());
            EXPECT_NE(f.hash(), row.format.hash());
        }
    }
    EXPECT_EQ(parse_block_format("bfp:8:16").name(), "bfp:8:16");
    EXPECT_EQ(parse_block_format("blocks:e4m3fn"), parse_block_format("mxfp8_e4m3"));
}

TEST(BlockFormat, FloorTakesTheExponentOfTheLargestValueBelowAPowerOfTwo) {
    const BlockFormat f = parse_block_format("mxfp8_e4m3");
    for (int k = -118; k <= 127; ++k) {
        const double power = std::ldexp(1.0, k);
        EXPECT_EQ(scale_exponent(f, power), k - 8);
        EXPECT_EQ(scale_exponent(f, std::nextafterf(static_cast<float>(power), 0)), k - 9);
        EXPECT_EQ(scale_exponent(f, std::nextafter(power, 0)), k - 9);
    }
}

TEST(BlockFormat, RulesDifferWhereTheyShould) {
    // Significands at which each rule takes the next power of two, elements e4m3fn (largest 1.75
    // 2^8).
    const struct {
        ScaleRule rule;
        double first;  // least significand in [1, 2) that moves up
    } cases[] = {{ScaleRule::ceil, std::nextafter(1.0, 2)},
                 {ScaleRule::rceil, std::nextafter(1.75, 2)},
                 {ScaleRule::even, 1.9375}};
    for (const auto& c : cases) {
        const BlockFormat f = with_rule("mxfp8_e4m3", c.rule);
        EXPECT_EQ(scale_exponent(f, c.first), -7);
        EXPECT_EQ(scale_exponent(f, std::nextafter(c.first, 0)), -8);
        EXPECT_EQ(scale_exponent(f, 1.0), -8);
    }
    EXPECT_EQ(scale_exponent(with_rule("mxfp8_e4m3", ScaleRule::floor), std::nextafter(2.0, 0)),
              -8);
}

TEST(BlockFormat, ScalesAreClampedToTheScaleFormat) {
    for (const ScaleRule rule :
         {ScaleRule::floor, ScaleRule::ceil, ScaleRule::rceil, ScaleRule::even}) {
        for (const char* name : {"mxfp8_e5m2", "mxfp4", "mxint8"}) {
            const BlockFormat f = with_rule(name, rule);
            EXPECT_EQ(scale_exponent(f, 0x1p-149), -127);
            EXPECT_EQ(scale_exponent(f, DBL_TRUE_MIN), -127);
            EXPECT_EQ(scale_exponent(f, DBL_MAX), 127);
        }
    }
    EXPECT_EQ(scale_exponent(with_rule("mxint8", ScaleRule::ceil), FLT_MAX), 127);
    EXPECT_EQ(scale_exponent(with_rule("mxfp4", ScaleRule::ceil), FLT_MAX), 126);
}

TEST(Blocks, KnownBlocks) {
    EXPECT_EQ(quantized({500, 1, -0.5f}, "mxfp8_e4m3"), (std::vector<float>{448, 1, -0.5f}));
    EXPECT_EQ(quantized({449, 3}, "mxfp8_e4m3,rule=rceil"), (std::vector<float>{448, 3}));
    EXPECT_EQ(quantized({1, 2, 1024, 3}, "mxfp4,block=2"), (std::vector<float>{1, 2, 1024, 0}));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> alone = quantized({nan, 1}, "mxfp8_e4m3"),
                             both = quantized({nan, 1}, "mxfp4");
    EXPECT_TRUE(std::isnan(alone[0]) && alone[1] == 1);
    EXPECT_TRUE(std::isnan(both[0]) && std::isnan(both[1]));
}

TEST(Blocks, FarBelowEveryElementOnlyTheSignCounts) {
    const std::vector<double> in = {0x1p100, DBL_TRUE_MIN, -DBL_TRUE_MIN};
    std::vector<double> out(3);
    const BlockFormat f = parse_block_format("mxfp4");
    quantize_blocks(in, out, {1, 3, 1}, f, {RoundingMode::toward_positive, Overflow::saturate});
    EXPECT_EQ(out[1], 0x1p98 * 0.5);
    EXPECT_TRUE(out[2] == 0 && std::signbit(out[2]));
}

TEST(Blocks, LengthsThatDisagreeAreRefused) {
    const BlockFormat f = parse_block_format("mxfp4");
    const Projection p{RoundingMode::ties_to_even, Overflow::saturate};
    std::vector<float> in(40), out(39);
    std::vector<std::uint8_t> codes(40), scales(1);
    EXPECT_THROW(quantize_blocks(in, out, {1, 40, 1}, f, p), std::invalid_argument);
    EXPECT_THROW(encode_blocks(in, codes, scales, {1, 40, 1}, f, p), std::invalid_argument);
    EXPECT_THROW(decode_blocks(codes, scales, 1, in, {1, 40, 1}, f), std::invalid_argument);
}

TEST(Packing, FillsBytesFromTheLowBit) {
    const std::vector<std::uint8_t> codes = {1, 2, 3, 4, 5, 6, 7};
    for (int bits = 3; bits <= 8; ++bits) {
        std::vector<std::uint8_t> bytes(packed_size(codes.size(), bits)), back(codes.size());
        pack(codes, bytes, 1, bits);
        for (std::size_t i = 0; i < codes.size() * static_cast<std::size_t>(bits); ++i) {
            const std::size_t code = i / static_cast<std::size_t>(bits),
                              bit = i % static_cast<std::size_t>(bits);
            EXPECT_EQ(bytes[i / 8] >> (i % 8) & 1, codes[code] >> bit & 1)
                << bits << " bits, bit " << i;
        }
        unpack(bytes, back, 1, bits);
        EXPECT_EQ(back, codes);
    }
    std::vector<std::uint8_t> bytes(2, 0xEE);
    EXPECT_THROW(pack(codes, bytes, 1, 2), std::invalid_argument);
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0xEE, 0xEE}));  // nothing written
    EXPECT_THROW(packed_size(1, 9), std::invalid_argument);
    EXPECT_EQ(packed_size(std::numeric_limits<std::size_t>::max() / 8, 8),
              std::numeric_limits<std::size_t>::max() / 8);
}
