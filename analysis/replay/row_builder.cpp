#include "analysis/replay/row_builder.h"

#include "analysis/cost/cost_model.h"

namespace apscope::detail {

namespace {

void fill_blocks(ResultRow& row, const BlockUse& use) {
    row.block_count = use.blocks;
    row.block_saturated = use.saturated;
    if (use.blocks == 0) return;
    row.block_range = static_cast<double>(use.range_sum) / static_cast<double>(use.blocks);
    row.block_range_max = use.range_max;
    row.block_scale_spread = use.scale_spread();
}

}  // namespace

std::vector<ResultRow> make_rows(const SentItem& item, std::span<const RowSums> sums) {
    std::vector<ResultRow> rows;
    rows.reserve(sums.size());
    for (const RowSums& s : sums) {
        ResultRow& row = rows.emplace_back();
        row.wire = s.topology.empty();
        row.topology = s.topology;
        row.wire_bits = static_cast<std::int64_t>(item.wire_bits);
        row.side_bits = static_cast<std::int64_t>(item.side_bits);
        const Volume volume = volume_of(
            item.transport, s.topology, static_cast<double>(item.elements),
            static_cast<double>(item.wire_bits), static_cast<double>(item.side_bits), item.workers);
        row.volume = volume.inter;
        row.intra_volume = volume.intra;
        row.scale_exponent = item.scale_exponent;
        row.skipped = item.skipped;
        const bool has_noise = !row.wire && item.noise != nullptr && !item.noise->blocks.empty();
        if (item.skipped) {
            fill_skipped(row, s.statistics);
            if (has_noise) fill_noise(row, s.statistics.over_noise, item.noise->sum);
            continue;
        }
        fill_columns(row, s.statistics, s.moments, s.float_grid);
        if (s.has_split) fill_split(row, s.statistics);
        if (s.blocks) fill_blocks(row, *s.blocks);
        if (s.own) fill_own(row, *s.own);
        if (has_noise) fill_noise(row, s.statistics.over_noise, item.noise->sum);
        s.samples.fill(row);
    }
    return rows;
}

}  // namespace apscope::detail
