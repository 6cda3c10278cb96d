// Items on threads: each is run once, in order if memory is free, and the memory in use never
// exceeds the limit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "analysis/replay/item_queue.h"
#include "emulation/machine/parallel.h"

using namespace apscope::detail;

namespace {

TEST(ItemQueue, GivesEveryItemOnceWithinTheBudget) {
    constexpr std::size_t budget = 1000;
    std::mt19937 random(1);
    for (const int threads : {1, 2, 5}) {
        std::vector<std::size_t> needs(200);
        for (std::size_t& need : needs) need = random() % budget;
        ItemQueue queue(needs, budget);
        std::vector<std::atomic<int>> done(needs.size());
        std::mutex mutex;
        std::size_t used = 0, most = 0;
        const auto count = [&](std::size_t more, std::size_t less) {
            const std::lock_guard lock(mutex);
            used += more;
            used -= less;
            most = std::max(most, used);
        };
        parallel_for(needs.size(), threads, [&](std::size_t) {
            queue.do_one([&](std::size_t item, Workspace&) {
                count(needs[item], 0);
                ++done[item];
                count(0, needs[item]);
            });
        });
        for (const auto& times : done) EXPECT_EQ(times, 1);
        EXPECT_LE(most, budget);
    }
}

TEST(ItemQueue, OneThreadKeepsTheOrder) {
    ItemQueue queue({5, 3, 0, 9}, 9);
    std::vector<std::size_t> seen;
    for (int i = 0; i < 4; ++i)
        queue.do_one([&](std::size_t item, Workspace&) { seen.push_back(item); });
    EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(ItemQueue, WhatFitsGoesAheadOfWhatDoesNot) {
    ItemQueue queue({6, 6, 2}, 10);
    std::vector<std::size_t> inside;
    queue.do_one([&](std::size_t first, Workspace&) {
        EXPECT_EQ(first, 0u);
        queue.do_one([&](std::size_t item, Workspace&) { inside.push_back(item); });
    });
    queue.do_one([&](std::size_t item, Workspace&) { inside.push_back(item); });
    EXPECT_EQ(inside, (std::vector<std::size_t>{2, 1}));
}

TEST(ItemQueue, MoreThanTheBudgetRunsAlone) {
    ItemQueue queue({50}, 10);
    int runs = 0;
    queue.do_one([&](std::size_t, Workspace&) { ++runs; });
    EXPECT_EQ(runs, 1);
}

TEST(ItemQueue, AFailureLeavesRoomForOthers) {
    ItemQueue queue({10, 10}, 10);
    EXPECT_THROW(queue.do_one([](std::size_t, Workspace&) { throw std::runtime_error("no"); }),
                 std::runtime_error);
    std::size_t seen = 0;
    queue.do_one([&](std::size_t item, Workspace&) { seen = item; });
    EXPECT_EQ(seen, 1u);
}

TEST(ItemQueue, ItemsWaitUntilTheyAreOpened) {
    ItemQueue queue({0, 0, 0}, 10);
    queue.open_until(1);
    std::atomic<int> done{0};
    std::thread other([&] {
        for (int i = 0; i < 3; ++i) queue.do_one([&](std::size_t, Workspace&) { ++done; });
    });
    while (done < 1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(done, 1);
    queue.open_until(3);
    other.join();
    EXPECT_EQ(done, 3);
}

TEST(ItemQueue, AFailureOpensAllForGood) {
    ItemQueue queue({0, 0, 0}, 10);
    queue.open_until(1);
    EXPECT_THROW(queue.do_one([](std::size_t, Workspace&) { throw std::runtime_error("no"); }),
                 std::runtime_error);
    queue.open_until(1);
    std::vector<std::size_t> seen;
    for (int i = 0; i < 2; ++i)
        queue.do_one([&](std::size_t item, Workspace&) { seen.push_back(item); });
    EXPECT_EQ(seen, (std::vector<std::size_t>{1, 2}));
}

TEST(ItemQueue, WorkspacesAreUsedAgainAndGiveWay) {
    const auto fill = [](std::size_t, Workspace& workspace) {
        const Buffer<double> a(100'000);
        EXPECT_GE(workspace.buffers.held(), a.size() * sizeof(double));
    };
    std::size_t held = 0;
    ItemQueue roomy({1'000'000, 100}, 10'000'000);
    roomy.do_one(fill);
    roomy.do_one([&](std::size_t, Workspace& workspace) { held = workspace.buffers.held(); });
    EXPECT_GE(held, 800'000u);
    ItemQueue tight({1'000'000, 999'999}, 1'000'000);  // the second may use the pool's memory
    tight.do_one(fill);
    tight.do_one([&](std::size_t, Workspace& workspace) { held = workspace.buffers.held(); });
    EXPECT_GE(held, 800'000u);
    ItemQueue small({1'000'000, 100}, 500'000);
    small.do_one(fill);
    small.do_one([&](std::size_t, Workspace& workspace) { held = workspace.buffers.held(); });
    EXPECT_LE(held, 100u);
}

}  // namespace
