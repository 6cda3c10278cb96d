// The library's version.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

using namespace apscope;

TEST(CppVersion, IsThatOfTheProject) {
    std::ifstream file(APSCOPE_ROOT "/pyproject.toml");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\nversion = \"" APSCOPE_VERSION "\"\n"), std::string::npos);
    EXPECT_EQ(version(), APSCOPE_VERSION);
}

}  // namespace
