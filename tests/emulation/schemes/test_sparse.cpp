// The choice of the largest elements (of equal elements the first) compared with sorting: ties,
// zeros and numbers of one binade.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "emulation/machine/buffers.h"
#include "emulation/schemes/codecs/sparse.h"

namespace apscope::detail {
namespace {

using Sizes = std::vector<double>;

std::vector<std::size_t> by_sorting(const Sizes& sizes, std::size_t count) {
    std::vector<std::size_t> index(sizes.size());
    std::iota(index.begin(), index.end(), 0);
    std::stable_sort(index.begin(), index.end(),
                     [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
    index.resize(std::min(count, index.size()));
    std::sort(index.begin(), index.end());
    return index;
}

void compare(const Sizes& sizes) {
    const std::size_t n = sizes.size();
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n / 100, n / 3, n / 2,
                                    n - std::min<std::size_t>(n, 1), n, n + 5}) {
        const auto found = largest(n, count, [&](std::size_t i) { return sizes[i]; });
        EXPECT_EQ(std::vector<std::size_t>(found.begin(), found.end()), by_sorting(sizes, count))
            << count << " of " << n;
    }
}

template <class Draw>
Sizes drawn(std::size_t n, Draw&& draw) {
    Sizes sizes(n);
    for (double& v : sizes) v = draw();
    return sizes;
}

class Largest : public testing::Test {
protected:
    std::mt19937_64 random{7};
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
};

TEST_F(Largest, OfNumbersOfEverySize) {
    for (const std::size_t n : {0, 1, 2, 17, 1000, 30000}) {
        compare(drawn(n, [&] {
            return std::fabs(std::ldexp(normal(random), static_cast<int>(random() % 200) - 100));
        }));
    }
}
TEST_F(Largest,
       OfNumbersThatDifferInTheirLastBitsOnly) {  // more in one bin of the first, the second and
                                                  // the third histogram than are copied
    for (const double step : {0x1p-20, 0x1p-36, 0x1p-52})
        compare(drawn(30000, [&] { return 1.0 + step * static_cast<double>(random() % 1000); }));
}
TEST_F(Largest, OfEqualOnesTheFirst) {
    compare(Sizes(30000, 0.0));
    compare(Sizes(30000, 0.75));
    compare(drawn(30000, [&] { return random() % 200 == 0 ? std::fabs(normal(random)) : 0.0; }));
    compare(drawn(30000, [&] {
        return random() % 200 == 0 ? std::fabs(normal(random)) : random() % 2 ? -0.0 : 0.0;
    }));
    compare(drawn(30000, [&] { return static_cast<double>(random() % 3); }));
    compare(drawn(30000, [&] {
        return random() % 5 == 0 ? std::numeric_limits<double>::infinity() : uniform(random);
    }));
}

TEST_F(Largest, TakesLittleMemoryWhateverTheNumbers) {
    constexpr std::size_t n = 1 << 20;
    for (const Sizes& sizes :
         {Sizes(n, 0.0), drawn(n, [&] { return 1.0 + uniform(random) / 16; })}) {
        BufferPool pool;
        const UsesBuffers uses(pool);
        const Cutoff found = cutoff_of(n, n / 2, [&](auto&& f) {
            for (std::size_t i = 0; i < n; ++i) f(i, sizes[i]);
        });
        EXPECT_GE(found.size, 0.0);
        EXPECT_LT(pool.most_used(), n + (1 << 20))
            << "more than one byte per element beside the histogram";
    }
}

}  // namespace
}  // namespace apscope::detail
