// The rows of one scheme on one item, from their sums: wire, exact, then the scheme's own reduction
// or the topologies that it is combined with. Float grids (scheme_run.h) and exchanges, in blocks
// or of whole tensors (exchange_sums.h), fill in the same sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/statistics/draw_samples.h"
#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "emulation/schemes/codecs/block_use.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

// The data that all rows of the item share.
struct SentItem {
    const Transport& transport;
    std::size_t elements = 0;  // of one worker
    int workers = 1;
    std::uint64_t wire_bits = 0, side_bits = 0;
    std::optional<int> scale_exponent;
    bool skipped = false;  // statistics are then of a reference with itself
    // Of the item; none, or without blocks: unknown.
    const BatchNoise* noise = nullptr;
};

// The parts of one row.
struct RowSums {
    std::string topology;  // empty at the wire
    Moments moments = Moments::none;
    bool float_grid = false;  // the statistics counted limits and ulps of a float format
    bool has_split = false;  // and the causes of the error
    ErrorStatistics statistics;
    std::optional<ErrorStatistics> own;  // against the scheme's own truth
    std::optional<BlockUse> blocks;  // of the wire, of schemes whose scales are blocks' own
    DrawSamples samples;  // empty where none are taken
};

std::vector<ResultRow> make_rows(const SentItem& item, std::span<const RowSums> sums);

}  // namespace apscope::detail
