// The rule of matrix units on cases computed by hand, and the names of orders "unit:...".
#include "core/matrix_unit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/matrix_unit_presets.h"

namespace {

using namespace apscope::detail;

constexpr float infinity = std::numeric_limits<float>::infinity();

// One block of products with 1, on the unit of a preset.
float block(const char* name, const std::vector<float>& a, float c, int smallest_exponent = -14) {
    std::vector<UnitNumber> x, y;
    for (const float value : a) {
        x.push_back(unit_number(value, smallest_exponent));
        y.push_back(unit_number(1.0f, smallest_exponent));
    }
    return add_block(matrix_unit_preset(name).unit, x.data(), y.data(), static_cast<int>(a.size()),
                     c);
}

TEST(MatrixUnit, CutsTermsBelowTheLargestExponent) {
    // -2^-25 is the last bit of an H100's terms; the sum 1 - 2^-25 is cut to 1 - 2^-24.
    EXPECT_EQ(block("h100", {1, -0x1p-12f}, 0), 1 - 0x1p-12f);
    EXPECT_EQ(block("h100", {1}, -0x1p-25f), 1 - 0x1p-24f);
    EXPECT_EQ(block("h100", {1}, -0x1p-26f), 1);
    EXPECT_EQ(block("a100", {1}, -0x1p-24f), 1 - 0x1p-24f);
    EXPECT_EQ(block("a100", {1}, -0x1p-25f), 1);
    EXPECT_EQ(block("v100", {1}, -0x1p-24f), 1);
    // Two cut terms do not add to a whole one.
    EXPECT_EQ(block("h100", {0x1p12f, -0x1p12f, 0x1.8p-14f, 0x1.8p-14f}, 0), 0);
}

TEST(MatrixUnit, AlignsAtTheProductsExponentWithoutItsCarry) {
    // 1.5 * 1.5 = 2.25 has the exponent 0 of its factors, so -2^-25 is kept.
    const UnitNumber x = unit_number(1.5f, -14);
    const MatrixUnit& h100 = matrix_unit_preset("h100").unit;
    EXPECT_EQ(add_block(h100, &x, &x, 1, -0x1p-25f), 2.25f - 0x1p-22f);
}

TEST(MatrixUnit, CutsResults) {
    EXPECT_EQ(block("h100:fp8", {1, 0x1p-9f}, 0x1p-13f, -6), 1 + 0x1p-9f + 0x1p-13f);
    EXPECT_EQ(block("h100:fp8", {1}, 0x1p-14f, -6), 1);
    EXPECT_EQ(block("h100:fp8", {}, -(1 + 0x1p-14f), -6), -1);
    EXPECT_EQ(block("h100", {}, 0x1p-149f), 0x1p-149f);
    EXPECT_EQ(std::signbit(block("h100", {}, -0.0f)), false);
    // fp16 results are rounded to nearest, ties to even.
    EXPECT_EQ(block("h100:fp16", {1}, 0x1p-11f), 1);
    EXPECT_EQ(block("h100:fp16", {1}, 0x1.8p-11f), 1 + 0x1p-10f);
    EXPECT_EQ(block("h100:fp16", {65504}, 65504), infinity);
    EXPECT_EQ(block("h100", {65504}, 0x1.fffffep127f), 0x1.fffffep127f);
}

TEST(MatrixUnit, InfinitiesAndNaN) {
    EXPECT_EQ(block("h100", {infinity, 1}, 0), infinity);
    EXPECT_EQ(block("h100", {1}, -infinity), -infinity);
    for (const float c : {-infinity, std::nanf("")})
        EXPECT_EQ(bits_cast<std::uint32_t>(block("h100", {infinity}, c)), 0x7FFFFFFFu);
}

TEST(MatrixUnit, AmdRules) {
    // CDNA 1 adds exactly: 2^-30 decides a tie, and what cancels leaves the smallest term.
    EXPECT_EQ(block("mi100", {1, 0x1p-24f, 0x1p-30f}, 0), 1 + 0x1p-23f);
    EXPECT_EQ(block("mi100", {1, 0x1p-24f, -0x1p-30f}, 0), 1);
    EXPECT_EQ(block("mi100", {1, 0x1p-24f}, 0x1p-140f), 1 + 0x1p-23f);
    EXPECT_EQ(block("mi100", {0x1p15f, -0x1p15f, 0x1p-14f, -0x1p-14f}, 0x1p-149f), 0x1p-149f);
    EXPECT_FALSE(std::signbit(block("mi100", {-0.0f}, -0.0f)));
    // CDNA 2 adds in pairs: (2^12 + 2^-12) + (-2^12 + 0) rounds 2^-12 away.
    EXPECT_EQ(block("mi250x", {0x1p12f, 0x1p-12f, -0x1p12f, 0}, 0), 0);
    EXPECT_EQ(block("mi250x", {0x1p12f, -0x1p12f, 0x1p-12f, 0}, 0), 0x1p-12f);
    // CDNA 3 rounds C down 24 bits below the largest exponent, even a far smaller one.
    EXPECT_EQ(block("mi300x", {1}, -0x1p-40f), 1 - 0x1p-24f);
    EXPECT_EQ(block("mi300x:fp8", {1}, -0x1p-40f), 1);
}

TEST(MatrixUnit, ProductsOfInterleavedBlocks) {
    const MatrixUnit unit = matrix_unit_preset("h100:mma_fp8").unit;
    EXPECT_EQ(unit.instruction(), 32);
    std::vector<int> places;
    for (const int place : {0, 1, 2, 3, 15, 16, 17, 18, 31})
        places.push_back(unit.product_at(place));
    EXPECT_EQ(places, (std::vector<int>{0, 1, 4, 5, 29, 2, 3, 6, 31}));
}

TEST(MatrixUnitOrder, Parses) {
    const MatrixUnitOrder order = parse_matrix_unit_order("h100:fp8,promote=128");
    EXPECT_EQ(order.unit, matrix_unit_preset("h100:fp8").unit);
    EXPECT_EQ(order.promote, 128u);
    EXPECT_EQ(order.inputs[0], (std::vector<std::string>{"e4m3fn", "e5m2"}));
    EXPECT_EQ(order.inputs[1], order.inputs[0]);
    EXPECT_EQ(parse_matrix_unit_order("k=16,fraction=25,result=23").unit,
              matrix_unit_preset("h100").unit);
    EXPECT_EQ(parse_matrix_unit_order("k=32,fraction=25,result=23,c=last,interleave=mod4").unit,
              matrix_unit_preset("h100:mma_fp8").unit);
}

TEST(MatrixUnitOrder, RefusesWithASentence) {
    const auto sentence = [](const char* text) -> std::string {
        try {
            parse_matrix_unit_order(text);
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(sentence("mi350x"), "no matrix unit 'mi350x': no model of CDNA 4 has been published");
    for (const char* name : {"cdna4", "tpu", "trainium:fp8", "mi350x:fp8"})
        EXPECT_TRUE(sentence(name).starts_with("no matrix unit '")) << name;
    EXPECT_TRUE(sentence("h200x").starts_with("unknown matrix unit 'h200x'; use v100, "));
    EXPECT_EQ(sentence("k=16,fraction=25"), "order=unit:k=16,fraction=25 needs the key result");
    EXPECT_EQ(sentence("h100,c=middle"), "c=middle must be term or last");
    EXPECT_EQ(sentence("h100,split=2,split=3"),
              "order=unit:h100,split=2,split=3 has the key split twice");
    for (const char* text :
         {"", "h100,", "h100,split=0", "h100,split=2,promote=2", "h100,z=1", "h100:fp16,promote=4",
          "mi300x,k=4", "k=0,fraction=25,result=23", "k=6,fraction=25,result=23,interleave=mod4",
          "k=4,fraction=25,result=24", "k=4,fraction=25,result=11,format=fp16", "h100,inputs=e4m3x",
          "b200:nvfp4,split=2", "b200:nvfp4,promote=24", "b200:nvfp4,k=32", "b200:mxfp8,c=last",
          "b200:mxfp4,inputs=e2m1fn*e5m2"})
        EXPECT_NE(sentence(text), "") << text;
}

}  // namespace
