// Regular expressions of specs match anywhere in a name, in bounded time and memory, or are refused
// in one sentence.
#include "emulation/schemes/shared/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "core/limits.h"
#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

std::string refusal(const std::string& text) {
    return test::message_of([&] { const Pattern pattern(text); });
}

TEST(Patterns, AreFoundAnywhere) {
    EXPECT_TRUE(Pattern("conv\\d\\.w").found_in("net.conv1.weight"));
    EXPECT_FALSE(Pattern("^conv").found_in("net.conv1.weight"));
    EXPECT_TRUE(Pattern("").found_in(""));
    EXPECT_TRUE(Pattern("^(a|\\x2f)$").found_in("/"));
}

TEST(Patterns, TakeLongNamesAndDeepExpressions) {
    EXPECT_TRUE(Pattern(".*").found_in(std::string(1'000'000, 'a')));
    EXPECT_TRUE(Pattern("(x+x+)+y|a$").found_in(std::string(100'000, 'x') + "a"));
    EXPECT_TRUE(Pattern(std::string(20'000, '(') + "a" + std::string(20'000, ')')).found_in("bab"));
}

TEST(Patterns, AreRefusedInOneSentence) {
    EXPECT_EQ(refusal("a(?!b)"), "'a(?!b)' is not a regular expression that apscope takes: invalid "
                                 "perl operator: (?!; it must be in RE2's syntax");
    EXPECT_NE(refusal("(a)\\1").find("invalid escape sequence: \\1"), std::string::npos);
    const std::string longest(limits::pattern_length, 'a');
    EXPECT_EQ(refusal(longest), "");
    EXPECT_NE(refusal(longest + "a").find("it has 100001 characters; at most 100000 are read"),
              std::string::npos);
    EXPECT_LT(refusal(longest + "a").size(), 300u);
}

TEST(Limits, QuotesEndBetweenCharacters) {
    EXPECT_EQ(limits::clipped(std::string(100, 'a')), std::string(100, 'a'));
    EXPECT_EQ(limits::clipped(std::string(101, 'a')), std::string(97, 'a') + "...");
    std::string text;
    for (int i = 0; i < 60; ++i) text += "é";
    EXPECT_EQ(limits::clipped(text), text.substr(0, 96) + "...");
}

}  // namespace
}  // namespace apscope::detail
