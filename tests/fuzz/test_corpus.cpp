// The targets of the fuzzer on its corpus: every file, complete, cut short, and with changed bytes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {
namespace {

struct Target {
    const char* name;
    void (*run)(Bytes);
};

class FuzzCorpus : public testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, IsTakenOrRefusedInOneSentence) {
    std::size_t files = 0;
    std::mt19937 random(1);
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(APSCOPE_ROOT) / "tests/fuzz/corpus" / GetParam().name)) {
        ++files;
        std::ifstream stream(entry.path(), std::ios::binary);
        const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
        const auto run = [&](Bytes given) {
            ASSERT_NO_THROW(GetParam().run(given))
                << entry.path() << ", of it " << given.size() << " bytes";
        };
        run(bytes);
        for (int i = 0; i < 40 && !bytes.empty(); ++i) {
            run(Bytes(bytes).first(random() % bytes.size()));
            std::vector<std::uint8_t> changed = bytes;
            changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
            run(changed);
        }
    }
    EXPECT_GT(files, 4u);
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus,
                         testing::Values(Target{"safetensors", safetensors},
                                         Target{"manifest", manifest}, Target{"specs", specs},
                                         Target{"formats", formats}, Target{"plans", plans},
                                         Target{"schemes", schemes}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace apscope::detail::fuzz
