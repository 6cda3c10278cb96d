// Files that change while they are mapped, and names that are not text.
#include "analysis/trace/mapped_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "analysis/trace/one_line.h"
#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

namespace fs = std::filesystem;

class MappedFiles : public testing::Test {
protected:
    MappedFiles() { write(1 << 20); }
    void write(std::size_t size) const {
        std::ofstream(path_, std::ios::binary) << std::string(size, 'x');
    }
    static std::size_t written(const MappedFile& file) {
        return static_cast<std::size_t>(
            std::count(file.data(), file.data() + file.size(), std::byte{'x'}));
    }
    test::TemporaryFolder folder_;
    const fs::path path_ = folder_.path() / "x";
};

TEST_F(MappedFiles, AreAsTheyWere) {
    const MappedFile file(path_);
    EXPECT_TRUE(file.mapped());
    EXPECT_EQ(written(file), file.size());
    EXPECT_NO_THROW(check_file_unchanged(path_, *file.state()));
    EXPECT_NO_THROW(MappedFile(path_, file.state()));
}

TEST_F(MappedFiles, ThatAreCutReadAsZerosAndAreTold) {
    const MappedFile file(path_);
    fs::resize_file(path_, 8192);
    EXPECT_EQ(written(file), 8192u);
    EXPECT_TRUE(file.state()->cut);
    EXPECT_THROW(check_file_unchanged(path_, *file.state()), std::invalid_argument);
    EXPECT_THROW(MappedFile(path_, file.state()), std::invalid_argument);
}

TEST_F(MappedFiles, AreCutForManyAtOnce) {
    std::vector<std::unique_ptr<MappedFile>> files;
    for (int i = 0; i < 1500; ++i) files.push_back(std::make_unique<MappedFile>(path_));
    for (int i = 0; i < 1500; i += 3) files[i].reset();
    for (int i = 0; i < 1500; i += 3) files[i] = std::make_unique<MappedFile>(path_);
    fs::resize_file(path_, 4096);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::size_t i = t; i < files.size(); i += 4)
                EXPECT_EQ(files[i]->data()[files[i]->size() - 1 - i % 2], std::byte{0});
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST_F(MappedFiles, ThatAreGoneOrOthersAreTold) {
    const MappedFile file(path_);
    fs::remove(path_);
    EXPECT_THROW(check_file_unchanged(path_, *file.state()), std::invalid_argument);
    write(1 << 20);
    EXPECT_THROW(check_file_unchanged(path_, *file.state()), std::invalid_argument);
}

TEST_F(MappedFiles, ThatAreSmallAreRead) {
    write(100);
    const MappedFile file(path_);
    EXPECT_FALSE(file.mapped());
    fs::resize_file(path_, 1);
    EXPECT_EQ(written(file), 100u);
    EXPECT_THROW(check_file_unchanged(path_, *file.state()), std::invalid_argument);
}

TEST(OneLine, WritesWhatIsNoTextByItsCode) {
    EXPECT_EQ(one_line("a\nb\t\x01é😀"), "a\\nb\\t\\x01é😀");
    EXPECT_EQ(one_line("t\xff"), "t\\xFF");
    EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xED\\xA0\\x80");  // half a surrogate pair
    EXPECT_EQ(one_line("\xc0\xaf\xf0\x9f\x7f"), "\\xC0\\xAF\\xF0\\x9F\\x7F");
}

}  // namespace
}  // namespace apscope::detail
