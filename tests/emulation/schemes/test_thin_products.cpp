// Products with thin matrices have the bits of the sums in their formulas, added term by term from
// 0, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>

#include "emulation/schemes/codecs/thin_products.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

Row random_row(std::size_t n, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Row row(n);
    for (double& v : row)
        v = random() % 50 == 0 ? -0.0
                               : std::ldexp(normal(random), static_cast<int>(random() % 40) - 20);
    return row;
}

class ThinProducts : public OnLevel {};

TEST_P(ThinProducts, AreTheirSums) {
    for (const ThinShape s : {ThinShape{1, 1, 1},
                              {3, 5, 2},
                              {4, 16, 1},
                              {9, 33, 7},
                              {8, 64, 8},
                              {13, 1030, 9},
                              {5, 515, 17},
                              {70, 7, 5}}) {
        const Row m = random_row(s.rows * s.columns, 1), p = random_row(s.rows * s.rank, 2),
                  q = random_row(s.columns * s.rank, 3);
        Row mq(s.rows * s.rank, 0.0), mp(s.columns * s.rank, 0.0), pq(s.rows * s.columns, 0.0);
        for (std::size_t i = 0; i < s.rows; ++i) {
            for (std::size_t j = 0; j < s.columns; ++j) {
                for (std::size_t k = 0; k < s.rank; ++k) {
                    mq[i * s.rank + k] += m[i * s.columns + j] * q[j * s.rank + k];
                    mp[j * s.rank + k] += m[i * s.columns + j] * p[i * s.rank + k];
                    pq[i * s.columns + j] += p[i * s.rank + k] * q[j * s.rank + k];
                }
            }
        }
        EXPECT_EQ(times_thin(m, q, s), mq) << s.rows << " x " << s.columns << ", rank " << s.rank;
        EXPECT_EQ(transposed_times_thin(m, p, s), mp)
            << s.rows << " x " << s.columns << ", rank " << s.rank;
        EXPECT_EQ(product_of_thin(p, q, s), pq)
            << s.rows << " x " << s.columns << ", rank " << s.rank;
        EXPECT_EQ(thin_from_columns(thin_columns(q, s.columns, s.rank), s.columns, s.rank), q);
    }
}

APSCOPE_ON_EVERY_LEVEL(ThinProducts);

}  // namespace
}  // namespace apscope::detail
