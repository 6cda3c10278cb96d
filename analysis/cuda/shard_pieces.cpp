#include "analysis/cuda/shard_pieces.h"

#include <algorithm>

#include "emulation/allreduce/shard.h"

namespace apscope::detail {

ShardPieces::ShardPieces(std::uint64_t elements, int workers, std::uint64_t piece) : piece_(piece) {
    pieces_.resize((elements + piece - 1) / piece);
    for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(workers); ++s) {
        const Shard shard = shard_of(s, elements, static_cast<std::size_t>(workers));
        for (std::uint64_t i = shard.first, end = shard.first + shard.count; i < end;) {
            const std::uint64_t number = i / piece, next = std::min((number + 1) * piece, end),
                                extents = (next - i + sum_block - 1) / sum_block;
            pieces_[number].push_back({s, i - number * piece, next - i, i - shard.first,
                                       next == end, parts_++, extents_, extents_ + extents});
            extents_ += extents;
            i = next;
        }
    }
}

}  // namespace apscope::detail
