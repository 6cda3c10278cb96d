// Buffers of a pool: they are used again, a pool never holds more than was in use at once, and any
// thread may return a buffer. Limits of control groups.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "emulation/machine/buffers.h"
#include "emulation/machine/memory.h"
#include "tests/support/trace_files.h"

using namespace apscope::detail;

namespace {

using Numbers = Buffer<double>;
constexpr std::size_t large = std::size_t{1} << 20;  // numbers: 8 MiB

TEST(Buffers, ComeFromWhatWasGivenBack) {
    BufferPool pool;
    const UsesBuffers uses(pool);
    const double* first = nullptr;
    {
        const Numbers a(large);
        first = a.data();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    }
    const std::size_t held = pool.held();
    EXPECT_GE(held, large * sizeof(double));
    for (const std::size_t n : {large, large - 1000, large * 9 / 10}) {
        const Numbers again(n, 0.0);
        EXPECT_EQ(again.data(), first) << n;
        for (const double v : again) ASSERT_EQ(v, 0.0);
        EXPECT_EQ(pool.held(), held);
    }
}

TEST(Buffers, HoldNoMoreThanWasInUseAtOnce) {
    BufferPool pool;
    const UsesBuffers uses(pool);
    { const Numbers a(large), b(large); }
    std::size_t most = pool.held();
    for (std::size_t n = large; n > 4096; n = n * 2 / 3) {
        const Numbers a(n), b(n), c(n / 4);
        most = std::max(most, (n * 2 + n / 4) * sizeof(double) * 5 / 4 +
                                  3 * 5000);  // blocks may be a quarter longer
        EXPECT_LE(pool.held(), most) << n;
    }
    pool.trim(0);
    EXPECT_EQ(pool.held(), 0u);
}

TEST(Buffers, SmallOnesOfManyLengthsStay) {
    BufferPool pool;
    const UsesBuffers uses(pool);
    const std::size_t lengths[] = {1 << 16, 10000, 40000};  // one at a time: together 0.9 MiB
    const double* first[std::size(lengths)] = {};
    for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < std::size(lengths); ++i) {
            const Numbers a(lengths[i]);
            if (round == 0) first[i] = a.data();
            EXPECT_EQ(a.data(), first[i]) << round << " " << lengths[i];
        }
    }
}

TEST(Buffers, CountWhatIsAskedFor) {
    BufferPool pool;
    const UsesBuffers uses(pool);
    {
        const Numbers kept(100);
        { const Numbers a(3000), b(5000); }
        EXPECT_EQ(pool.used(), 100 * sizeof(double));
    }
    EXPECT_EQ(pool.used(), 0u);
    EXPECT_EQ(pool.most_used(), 8100 * sizeof(double));
}

TEST(Buffers, MayOutliveTheirPoolAndChangeThreads) {
    Numbers kept, short_one;
    {
        BufferPool pool;
        const UsesBuffers uses(pool);
        kept.assign(large, 1.0);
        short_one.assign(10, 2.0);
    }
    EXPECT_EQ(kept[large - 1], 1.0);
    std::thread([moved = std::move(kept)]() mutable {
        BufferPool other;
        const UsesBuffers uses(other);
        moved = Numbers();
        EXPECT_GE(other.held(), large * sizeof(double));
        const Numbers again(large);
    }).join();
    Numbers of_the_heap(large, 3.0);
    BufferPool pool;
    const UsesBuffers uses(pool);
    of_the_heap = Numbers();
    EXPECT_EQ(pool.held(), 0u);
    EXPECT_EQ(short_one[9], 2.0);
}

TEST(Buffers, NestInOneThread) {
    BufferPool outer, inner;
    const UsesBuffers uses(outer);
    {
        const UsesBuffers deeper(inner);
        const Numbers a(large);
        EXPECT_EQ(outer.held(), 0u);
    }
    const Numbers b(large);
    EXPECT_GT(outer.held(), 0u);
}

TEST(Buffers, TooLongAnArrayIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer ends the process where operator new would throw";
#endif
    EXPECT_THROW(Numbers(std::numeric_limits<std::size_t>::max() / 32), std::bad_alloc);
    EXPECT_THROW(BufferAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 4),
                 std::bad_alloc);
}

class ControlGroups : public ::testing::Test {
protected:
    void limit(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((place / file).parent_path());
        std::ofstream(place / file) << text << "\n";
    }
    // Each process has its own folder, because tests of this program run side by side.
    const test::TemporaryFolder folder;
    const std::filesystem::path place = folder.path();
    const std::size_t none = std::numeric_limits<std::size_t>::max();
};

TEST_F(ControlGroups, TheLeastLimitOnTheWayUpCounts) {
    EXPECT_EQ(control_group_memory("0::/a/b\n", place), none);
    limit("a/b/memory.max", "max");
    EXPECT_EQ(control_group_memory("0::/a/b\n", place), none);
    limit("a/memory.max", "5000");
    limit("memory.max", "9000");
    EXPECT_EQ(control_group_memory("0::/a/b\n", place), 5000u);
    EXPECT_EQ(control_group_memory("0::/\n", place), 9000u);
    EXPECT_EQ(control_group_memory("", place), none);
}

TEST_F(ControlGroups, TheFirstVersionHasAFileSystemOfItsOwn) {
    limit("memory/memory.limit_in_bytes", "9223372036854771712");
    limit("memory/docker/x/memory.limit_in_bytes", "7000");
    limit("memory.max", "1");  // belongs to no group in the lists
    EXPECT_EQ(control_group_memory("4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n", place), 7000u);
    EXPECT_EQ(control_group_memory("3:cpuset,memory:/elsewhere\n", place), 9223372036854771712u);
}

TEST(Machine, HasMemory) { EXPECT_GT(machine_memory(), std::size_t{1} << 24); }

}  // namespace
