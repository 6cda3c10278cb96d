// Numbers out of text: what is one, what is none, and what a refusal says.
#include <gtest/gtest.h>

#include <cstdint>

#include "core/parse.h"

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

TEST(Parse, NumbersAreTakenOffTheFront) {
    std::string_view text = "12m3";
    EXPECT_EQ(take_number<int>(text), 12);
    EXPECT_EQ(text, "m3");
    EXPECT_FALSE(take_number<int>(text));
    EXPECT_EQ(text, "m3");
}

template <class Job>
std::string refusal(const Job& job) {
    try {
        job();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

TEST(Parse, KeysHaveARange) {
    EXPECT_EQ(parse_integer("bits", "1", 1, 16), 1);
    EXPECT_EQ(parse_integer("bits", "16", 1, 16), 16);
    for (const char* text : {"0", "17", "1.5", "x", "99999999999999999999"}) {
        EXPECT_EQ(refusal([&] { parse_integer("bits", text, 1, 16); }),
                  std::string("bits=") + text + " must be an integer from 1 to 16");
    }
    EXPECT_EQ(parse_real("target", "0.5", 1e-6, 0.5), 0.5);
    for (const char* text : {"0.51", "nan", "inf", "-1", ""}) {
        EXPECT_EQ(refusal([&] { parse_real("target", text, 1e-6, 0.5); }),
                  std::string("target=") + text + " must be a number from 1e-06 to 0.5");
    }
    EXPECT_EQ(parse_real("clip", "1e300", 0.0), 1e300);
    EXPECT_EQ(refusal([] { parse_real("clip", "inf", 0.0); }),
              "clip=inf must be a finite number of at least 0");
}

}  // namespace
}  // namespace apscope::detail
