// Results that a program writes: what is in the folders, that they appear whole or not at all, and
// what is refused. tests/python/repository/test_cpp_files.py compares the bytes with those of
// Python.
#include <apscope/apscope.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "place.h"

namespace {

using namespace apscope;
using namespace apscope_test;
namespace fs = std::filesystem;

const Results& some_results() {
    static const Results results = replay(open_trace(APSCOPE_ROOT "/notebooks/data/digits"),
                                          {"none:e4m3", "qsgd"}, {.end_step = 2});
    return results;
}

TEST(CppResults, AreWrittenWholeOrNotAtAll) {
    const Place place;
    const Results& results = some_results();
    results.write(place / "above/results");
    EXPECT_EQ(Place::names_of(place / "above"), (std::vector<std::string>{"results"}));
    const fs::path folder = place / "above/results";
    EXPECT_EQ(Place::names_of(folder),
              (std::vector<std::string>{"histograms.parquet", "noise.parquet", "provenance.json",
                                        "results.csv", "results.parquet"}));
    std::ostringstream csv;
    results.write_csv(csv);
    EXPECT_EQ(text_of(folder / "results.csv"), csv.str());
    EXPECT_EQ(std::ranges::count(csv.str(), '\n'), static_cast<std::ptrdiff_t>(results.size() + 1));

    EXPECT_NE(error_of([&] { results.write(folder); }).find("has results; give another folder"),
              std::string::npos);
    std::ofstream(folder / "notes.txt") << "kept";
    results.write(folder, {.csv = false, .replace = true});
    EXPECT_EQ(Place::names_of(folder),
              (std::vector<std::string>{"histograms.parquet", "noise.parquet", "notes.txt",
                                        "provenance.json", "results.parquet"}));
    fs::remove(folder / "provenance.json");  // as a write that was killed leaves it
    EXPECT_THROW(results.write(folder, {.replace = true}), std::invalid_argument);
    fs::create_directory(folder / ".results.apscope-01234567");
    results.write(folder);
    EXPECT_TRUE(fs::exists(folder / "provenance.json"));
    fs::create_directory(place / "empty");
    results.write(place / "empty");
    EXPECT_TRUE(fs::exists(place / "empty/provenance.json"));
}

TEST(CppResults, AFailedReplacementRestoresTheOldFiles) {
    const Place place;
    const fs::path folder = place / "results";
    some_results().write(folder);
    const std::string before = text_of(folder / "provenance.json");
    fs::remove(folder / "noise.parquet");
    fs::create_directory(folder / "noise.parquet");  // of someone else
    std::ofstream(folder / "noise.parquet/file") << "kept";
    const std::vector<std::string> names = Place::names_of(folder);
    const WriteOptions changed{.csv = false, .replace = true};
    EXPECT_NE(error_of([&] {
                  some_results().write(folder, changed);
              }).find("results/noise.parquet is a folder; remove it"),
              std::string::npos);
    EXPECT_EQ(Place::names_of(folder), names);
    EXPECT_EQ(text_of(folder / "provenance.json"), before);
    EXPECT_EQ(text_of(folder / "noise.parquet/file"), "kept");
}

// A lock of another process, as the Python package takes it.
class Held {
public:
    explicit Held(const fs::path& lock) : file_(open(lock.c_str(), O_RDWR | O_CREAT, 0644)) {
        EXPECT_EQ(flock(file_, LOCK_EX | LOCK_NB), 0);
    }
    ~Held() { close(file_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

private:
    int file_;
};

TEST(CppResults, OneProcessAtATimeWritesAFolder) {
    const Place place;
    const auto refusal = [&] { return error_of([&] { some_results().write(place / "results"); }); };
    {
        const Held beside(place / ".results.apscope-lock");
        EXPECT_NE(refusal().find("another process writes"), std::string::npos);
        EXPECT_EQ(place.names(), std::vector<std::string>{".results.apscope-lock"});
    }
    fs::create_directory(place / "results");
    fs::create_directory(place / "results/.results.apscope-01234567");  // its hidden folder
    {
        const Held inside(place / "results/.results.apscope-lock");
        EXPECT_NE(refusal().find("another process writes"), std::string::npos);
        EXPECT_TRUE(fs::exists(place / "results/.results.apscope-01234567"));
    }
    EXPECT_EQ(refusal(), "no error");
    EXPECT_FALSE(fs::exists(place / "results/.results.apscope-lock"));
}

TEST(CppResults, RemainsOfKilledProcessesAreRemoved) {
    const Place place;
    fs::create_directory(place / ".results.apscope-01234567");
    fs::create_directory(place / ".results.apscope-89abcdef");
    std::ofstream(place / ".results.apscope-89abcdef/file") << "of someone else";
    some_results().write(place / "results");
    EXPECT_EQ(place.names(), (std::vector<std::string>{".results.apscope-89abcdef", "results"}));
}

TEST(CppResults, RemainsOfANameThatIsNotUtf8AreRemoved) {
    const Place place;
    const fs::path hidden = place / ".r\xff.apscope-01234567";
    fs::create_directory(hidden);
    std::ofstream(hidden / "apscope.json") << R"({"writes": "r\ufffd"})";
    some_results().write(place / "r\xff");
    EXPECT_EQ(place.names(), (std::vector<std::string>{"r\xff"}));
}

TEST(CppResults, AnInterruptedWriteIsRepeated) {
    const Place place;
    const fs::path with_long_name = place / std::string(120, 'x').c_str();
    const std::pair<fs::path, std::string> folders[] = {
        {with_long_name, "." + std::string(100, 'x') + ".apscope-01234567"},
        {place / "link", ".link.apscope-01234567"},
        {place / "folder/../plain/", ".plain.apscope-01234567"}};
    fs::create_directory(place / "folder");
    fs::create_directory(place / "plain");
    fs::create_directory(with_long_name);
    fs::create_directory_symlink(place / "folder", place / "link");
    for (const auto& [folder, hidden] : folders) {
        fs::create_directory(folder / hidden);
        EXPECT_EQ(error_of([&] { some_results().write(folder); }), "no error") << folder;
    }
}

TEST(CppResults, ReplaceNothingElse) {
    const Place place;
    const Results& results = some_results();
    std::ofstream(place / "file") << "of someone else";
    fs::create_directory(place / "folder");
    std::ofstream(place / "folder/file") << "of someone else";
    fs::copy(APSCOPE_ROOT "/notebooks/data/digits/manifest.json", place / "manifest.json");
    const WriteOptions replace{.replace = true};
    EXPECT_THROW(results.write(""), std::invalid_argument);
    EXPECT_THROW(results.write(place / "file", replace), std::invalid_argument);
    EXPECT_THROW(results.write(place / "folder", replace), std::invalid_argument);
    EXPECT_THROW(results.write(place / "", replace), std::invalid_argument);  // as of a trace
    EXPECT_THROW(results.write(place / "file/results"), std::runtime_error);
    EXPECT_EQ(place.names(), (std::vector<std::string>{"file", "folder", "manifest.json"}));
    EXPECT_EQ(text_of(place / "folder/file"), "of someone else");

    std::ostringstream closed;
    closed.setstate(std::ios::badbit);
    EXPECT_THROW(results.write_csv(closed), std::runtime_error);
}

TEST(CppResults, AFullDiskLeavesNothing) {
    if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
    std::ofstream full("/dev/full");
    EXPECT_THROW(
        {
            for (int i = 0; i < 100; ++i) some_results().write_csv(full);
        },
        std::runtime_error);
}

TEST(CppResults, AnEarlyErrorLeavesNothing) {
    const Place place;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none{0, before.rlim_max};  // no file may have a byte, as on a full disk
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const std::string error = error_of([&] { some_results().write(place / "results"); });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_NE(error.find("results cannot be written"), std::string::npos) << error;
    EXPECT_EQ(place.names(), std::vector<std::string>{});
}

}  // namespace
