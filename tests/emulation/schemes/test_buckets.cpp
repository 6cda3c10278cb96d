// A tensor's row among its neighbours in a bucket: blocks are counted from the start of the bucket,
// and a block belongs to the tensor in which it begins.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "emulation/schemes/shared/buckets.h"

namespace apscope::detail {
namespace {

// Tensors of 3, 0, 5 and 2 elements, which a bucket has in reverse order; worker w's element i of
// tensor k is 100 w + 10 k + i.
const std::vector<std::size_t> sizes{3, 0, 5, 2};

Bucket bucket_of_tensor(std::size_t tensor, std::size_t workers) {
    static std::vector<std::vector<float>> held(64);
    const auto gradient = [](std::size_t k, std::size_t w) {
        std::vector<float>& row = held.at(8 * w + k);
        row.resize(sizes[k]);
        for (std::size_t i = 0; i < row.size(); ++i)
            row[i] = static_cast<float>(100 * w + 10 * k + i);
        return std::span<const float>(row);
    };
    SchemeParts parts;
    parts.bucket = 1 << 20;
    return bucket_around(
        parts, tensor, sizes.size(), [](std::size_t k) { return std::optional(sizes[k]); }, workers,
        gradient, [](std::size_t) { return std::make_shared<ArrayTotals>(); });
}

std::vector<double> read(const BlocksAround& around) {
    const std::span<const double> row = around.row.read(0, around.row.size);
    return {row.begin(), row.end()};
}

TEST(Buckets, BlocksHaveTheNeighboursElements) {
    const Bucket bucket = bucket_of_tensor(2, 2);
    EXPECT_EQ(bucket.first, 2u);
    EXPECT_EQ(bucket.size(), 10u);
    TrainingStep step;
    step.workers = 2;
    step.bucket = &bucket;
    const Row own(5);
    const BlocksAround around = blocks_around(step, RowReader::of(own), own.size(), 1, 4);
    EXPECT_EQ(read(around), (std::vector<double>{130, 131, 120, 121, 122, 123, 124, 100}));
    EXPECT_EQ(around.lead, 2u);
    EXPECT_EQ(around.begun, 1u);  // the block of element 4; that of element 0 begins before
    EXPECT_FALSE(around.starts);
    EXPECT_FALSE(around.ends);
}

TEST(Buckets, TheLastBlockMayBeShorter) {
    const Bucket bucket = bucket_of_tensor(0, 1);
    TrainingStep step;
    step.bucket = &bucket;
    const Row own(3);
    const BlocksAround around = blocks_around(step, RowReader::of(own), own.size(), 0, 4);
    EXPECT_EQ(read(around), (std::vector<double>{22, 23, 24, 0, 1, 2}));
    EXPECT_EQ(around.lead, 3u);
    EXPECT_EQ(around.begun, 1u);
    EXPECT_TRUE(around.ends);
}

TEST(Buckets, ATensorWithoutElementsHasNoBlock) {
    const Bucket bucket = bucket_of_tensor(1, 1);
    TrainingStep step;
    step.bucket = &bucket;
    const BlocksAround around = blocks_around(step, RowReader::of(Row()), 0, 0, 4);
    EXPECT_EQ(around.row.size, 0u);
    EXPECT_EQ(around.begun, 0u);
    EXPECT_FALSE(around.starts || around.ends);
}

TEST(Buckets, SomeOfTheWorkersHaveNoNeighbours) {
    const Bucket bucket = bucket_of_tensor(2, 3);
    TrainingStep step;
    step.workers = 2;
    step.bucket = &bucket;
    const Row own(5);
    EXPECT_THROW(blocks_around(step, RowReader::of(own), own.size(), 0, 4), std::invalid_argument);
    const Bucket of_one = bucket.of(2, 2);
    step.workers = 1;
    step.bucket = &of_one;
    EXPECT_EQ(read(blocks_around(step, RowReader::of(own), own.size(), 2, 5)),
              (std::vector<double>{230, 231, 220, 221, 222, 223, 224, 200, 201, 202}));
}

}  // namespace
}  // namespace apscope::detail
