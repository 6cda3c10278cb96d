// The shards of a reduction in two phases (emulation/schemes/two_phase.h), cut where the pieces of
// an item end.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fixed_shape_sum.h"

namespace apscope::detail {

// The part of a shard that lies in one piece.
struct ShardPiece {
    std::uint64_t shard, first, count;  // `first`: the index in the piece of the first element
    std::uint64_t in_shard;             // the index in the shard of the first element
    bool ends;                          // the shard ends here
    std::uint64_t number;               // of the part among those of the item, from 0
    // Every 4096 elements of a part have an extent (SumExtentStep); these are the part's first and
    // the next part's first among those of the item.
    std::uint64_t first_extent, end_extent;
};

class ShardPieces {
public:
    // piece: the elements of every piece but the last.
    ShardPieces(std::uint64_t elements, int workers, std::uint64_t piece);

    // The parts in the piece that begins at element `first`.
    const std::vector<ShardPiece>& of(std::uint64_t first) const { return pieces_[first / piece_]; }
    const std::vector<std::vector<ShardPiece>>& pieces() const { return pieces_; }
    std::uint64_t extents() const { return extents_; }
    // Sums whose blocks lie in two parts keep 16 numbers of each part for the next one. There are
    // 16 more, which stand before those of the first part.
    std::uint64_t edges() const { return 16 * (parts_ + 1); }
    static std::uint64_t edges_before(const ShardPiece& part) { return 16 * part.number; }

private:
    std::uint64_t piece_, extents_ = 0, parts_ = 0;
    std::vector<std::vector<ShardPiece>> pieces_;
};

}  // namespace apscope::detail
