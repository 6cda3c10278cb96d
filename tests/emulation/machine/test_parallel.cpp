// The number of usable processors, and the threads that share the pieces of an array: they start
// where enough work remains, and then run at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "emulation/machine/parallel.h"
#include "emulation/machine/processors.h"
#include "tests/support/trace_files.h"

namespace {

using namespace apscope::detail;
using apscope::detail::test::TemporaryFolder;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// All tests of this program share arrays among threads, however short the arrays are.
[[maybe_unused]] const bool threads_start_at_once = (pieces::set_share(0ns), true);

class Share {
public:
    explicit Share(std::chrono::nanoseconds time) : before_(pieces::share()) {
        pieces::set_share(time);
    }
    ~Share() { pieces::set_share(before_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

private:
    std::chrono::nanoseconds before_;
};

// Threads that wait for each other, at most ten seconds.
class Meeting {
public:
    explicit Meeting(std::size_t threads) : threads_(threads) {}
    bool attend() {
        std::unique_lock lock(mutex_);
        here_.insert(std::this_thread::get_id());
        changed_.notify_all();
        return changed_.wait_for(lock, 10s, [&] { return here_.size() >= threads_; });
    }

private:
    std::size_t threads_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<std::thread::id> here_;
};

TEST(ParallelPieces, RunEveryPieceOnceAndPassErrorsOn) {
    for (const auto share :
         {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1), std::chrono::nanoseconds(1h)}) {
        const Share set(share);
        for (const int threads : {0, 1, 2, 7}) {
            std::vector<std::atomic<int>> runs(1000);
            parallel_pieces(runs.size(), threads, [&](std::size_t i) { ++runs[i]; });
            for (const auto& r : runs) EXPECT_EQ(r.load(), 1);
            EXPECT_THROW(parallel_pieces(100, threads,
                                         [](std::size_t i) {
                                             if (i == 50) throw std::runtime_error("fifty");
                                         }),
                         std::runtime_error);
            parallel_pieces(0, threads, [](std::size_t) { FAIL(); });
        }
        EXPECT_THROW(parallel_pieces(0, -1, [](std::size_t) {}), std::invalid_argument);
    }
}

TEST(ParallelPieces, TheCallerRunsAloneWhereLittleWorkRemains) {
    const Share set(1h);
    std::set<std::thread::id> ran;
    parallel_pieces(100, 8, [&](std::size_t) { ran.insert(std::this_thread::get_id()); });
    EXPECT_EQ(ran, std::set{std::this_thread::get_id()});
}

TEST(ParallelPieces, OthersJoinOnceEnoughWorkRemains) {
    if (usable_processors() < 2) GTEST_SKIP() << "one processor has no other thread";
    const Share set(1ns);
    Meeting meeting(2);
    std::atomic<bool> met{false};
    parallel_pieces(3, 2, [&](std::size_t i) {
        if (i == 0) std::this_thread::sleep_for(1ms);
        else met = meeting.attend();
    });
    EXPECT_TRUE(met);
}

TEST(ParallelPieces, LargePiecesStartThreadsAtOnce) {
    if (usable_processors() < 2) GTEST_SKIP() << "one processor has no other thread";
    const Share set(1h);
    Meeting meeting(2);
    std::atomic<int> met{0};
    parallel_pieces(2, 2, [&](std::size_t) { met += meeting.attend(); }, pieces::worth_a_thread);
    EXPECT_EQ(met, 2);
}

TEST(ParallelPieces, NoMoreThreadsThanProcessors) {
    const Share set(1ns);
    std::mutex mutex;
    std::set<std::thread::id> ran;
    parallel_pieces(
        5000, 5000,
        [&](std::size_t) {
            const std::lock_guard lock(mutex);
            ran.insert(std::this_thread::get_id());
        },
        pieces::worth_a_thread);
    EXPECT_LE(ran.size(), static_cast<std::size_t>(usable_processors()));
}

TEST(ParallelFor, AllThreadsRunAtOnce) {
    constexpr std::size_t threads = 5;
    Meeting meeting(threads);
    std::atomic<std::size_t> met{0};
    parallel_for(threads, threads, [&](std::size_t) { met += meeting.attend(); });
    EXPECT_EQ(met, threads);
}

void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
}

TEST(Processors, AreAtMostTheMachines) {
    EXPECT_GE(usable_processors(), 1);
    EXPECT_EQ(thread_count(0), usable_processors());
    EXPECT_EQ(thread_count(3), 3);
    EXPECT_THROW(thread_count(-1), std::invalid_argument);
}

TEST(Processors, OfControlGroups) {
    constexpr int none = std::numeric_limits<int>::max();
    const TemporaryFolder folder;
    const fs::path top = folder.path();
    EXPECT_EQ(control_group_processors("0::/user/job\n", top), none);
    write(top / "user/job/cpu.max", "max 100000\n");
    EXPECT_EQ(control_group_processors("0::/user/job\n", top), none);
    write(top / "user/cpu.max", "250000 100000\n");
    EXPECT_EQ(control_group_processors("0::/user/job\n", top), 3);  // 2.5, rounded up
    write(top / "user/job/cpu.max", "10000 100000\n");
    EXPECT_EQ(control_group_processors("0::/user/job\n", top), 1);
    EXPECT_EQ(control_group_processors("0::/user/other\n", top), 3);
    EXPECT_EQ(control_group_processors("0::/elsewhere\n", top), none);
    // Version 1.
    write(top / "cpu/job/cpu.cfs_quota_us", "-1\n");
    write(top / "cpu/job/cpu.cfs_period_us", "100000\n");
    const std::string groups = "5:memory:/job\n4:cpu,cpuacct:/job\n";
    EXPECT_EQ(control_group_processors(groups, top), none);
    write(top / "cpu/job/cpu.cfs_quota_us", "400000\n");
    EXPECT_EQ(control_group_processors(groups, top), 4);
    EXPECT_EQ(control_group_processors("5:memory:/job\n", top), none);
    EXPECT_EQ(control_group_processors("nonsense\n", top), none);
}

}  // namespace
