// Parsing of numbers: texts that are numbers, texts that are not, and error messages.
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/parse.h"
#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

TEST(Parse, WholeTextsAreNumbersOrNot) {
    EXPECT_EQ(parse_number<int>("-17"), -17);
    EXPECT_EQ(parse_number<std::int64_t>("9223372036854775807"), INT64_MAX);
    EXPECT_EQ(parse_number<double>("1e-6"), 1e-6);
    for (const char* text : {"", "x", "1x", " 1", "1 ", "+1", "1.5", "2147483648"})
        EXPECT_FALSE(parse_number<int>(text)) << text;
    EXPECT_FALSE(parse_number<std::size_t>("-1"));
    EXPECT_FALSE(parse_number<double>("1e999"));
}

// Texts that a standard library with std::from_chars for double reads.
#if !defined(_LIBCPP_VERSION) || _LIBCPP_VERSION >= 200000
TEST(Parse, RealsAreReadAsByFromChars) {
    const auto expect_same = [](std::string_view text) {
        double wanted = -7.0, found = -7.0;
        const char* const end = text.data() + text.size();
        const auto by_rule = std::from_chars(text.data(), end, wanted);
        const auto by_hand = read_real(text.data(), end, found);
        EXPECT_EQ(by_hand.ptr, by_rule.ptr) << text;
        EXPECT_EQ(by_hand.ec, by_rule.ec) << text;
        EXPECT_EQ(std::bit_cast<std::uint64_t>(found), std::bit_cast<std::uint64_t>(wanted))
            << text;
    };
    for (const char* text : {"0.1",
                             "-0",
                             "-0.0",
                             "00.5",
                             "1.",
                             ".5",
                             "-.5e1",
                             "1e5",
                             "1E+5x",
                             "1e-5",
                             "1e",
                             "1e+",
                             "1e400",
                             "-1e400",
                             "1e-400",
                             "4.9e-324",
                             "2e-324",
                             "0e-999",
                             "0.000",
                             "2.2250738585072011e-308",
                             "1.7976931348623157e308",
                             "1.7976931348623159e308",
                             "123456789012345678901234567890.5",
                             "9007199254740993",
                             "1,5",
                             "0x10",
                             "1.5.5",
                             "3f"}) {
        expect_same(text);
    }
    for (const char* text : {"inf", "-INF", "Infinity", "infinit", "in", "nan", "-NaN", "nan(",
                             "nan(a1_)", "nan(-)", "n", "i"})
        expect_same(text);
    for (const char* text : {"", "-", "--1", "+1", " 1", "\t1", ".", "-.", ".e1", "e1", "x", "-x"})
        expect_same(text);
    std::uint64_t state = 1;
    for (int i = 0; i < 100'000; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::string text;
        for (std::uint64_t rest = state >> 8, length = state >> 60; length > 0;
             --length, rest /= 16)
            text += "0123456789.-+eEn"[rest % 16];
        expect_same(text);
    }
}
#endif

TEST(Parse, NumbersAreTakenOffTheFront) {
    std::string_view text = "12m3";
    EXPECT_EQ(take_number<int>(text), 12);
    EXPECT_EQ(text, "m3");
    EXPECT_FALSE(take_number<int>(text));
    EXPECT_EQ(text, "m3");
}

TEST(Parse, KeysHaveARange) {
    EXPECT_EQ(parse_integer("bits", "1", 1, 16), 1);
    EXPECT_EQ(parse_integer("bits", "16", 1, 16), 16);
    for (const char* text : {"0", "17", "1.5", "x", "99999999999999999999"}) {
        EXPECT_EQ(test::message_of([&] { parse_integer("bits", text, 1, 16); }),
                  std::string("bits=") + text + " must be an integer from 1 to 16");
    }
    EXPECT_EQ(parse_real("target", "0.5", 1e-6, 0.5), 0.5);
    for (const char* text : {"0.51", "nan", "inf", "-1", ""}) {
        EXPECT_EQ(test::message_of([&] { parse_real("target", text, 1e-6, 0.5); }),
                  std::string("target=") + text + " must be a number from 1e-06 to 0.5");
    }
    EXPECT_EQ(parse_real("clip", "1e300", 0.0), 1e300);
    EXPECT_EQ(test::message_of([] { parse_real("clip", "inf", 0.0); }),
              "clip=inf must be a finite number of at least 0");
}

}  // namespace
}  // namespace apscope::detail
