// The shards of a tensor, cut where the pieces of an item end, cover each element once.
#include <gtest/gtest.h>

#include "analysis/cuda/shard_pieces.h"
#include "emulation/allreduce/shard.h"

namespace apscope::detail {
namespace {

TEST(ShardPieces, CoverEveryElementOnceInOrder) {
    for (const std::uint64_t n : {1u, 5u, 4096u, 8192u, 20000u}) {
        for (const int workers : {1, 2, 3, 8, 64}) {
            for (const std::uint64_t piece : {4096u, 8192u, 32768u}) {
                const ShardPieces pieces(n, workers, piece);
                std::uint64_t next = 0, extents = 0;
                for (std::uint64_t begin = 0; begin < n; begin += piece) {
                    for (const ShardPiece& part : pieces.of(begin)) {
                        const Shard shard =
                            shard_of(part.shard, n, static_cast<std::size_t>(workers));
                        EXPECT_EQ(begin + part.first, next);
                        EXPECT_EQ(shard.first + part.in_shard, next);
                        EXPECT_LE(part.first + part.count, piece);
                        EXPECT_EQ(part.first_extent, extents);
                        EXPECT_EQ(part.end_extent - part.first_extent,
                                  (part.count + sum_block - 1) / sum_block);
                        next += part.count;
                        extents = part.end_extent;
                    }
                }
                EXPECT_EQ(next, n);
                EXPECT_EQ(pieces.extents(), extents);
            }
        }
    }
}

}  // namespace
}  // namespace apscope::detail
