#include "emulation/schemes/codecs/scaled_blocks.h"

#include <algorithm>

#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

Message encode_scaled_blocks(std::span<const double> x, std::size_t block, const std::function<double(double)>& scale_of, int scale_bits,
                             const FloatGrid& grid, const RandomStream& stream, bool packs) {
    Message m;
    m.certain = !is_stochastic(grid.projection.rounding);
    m.grid_use = GridUse{};
    m.block_use = BlockUse{};
    for (std::size_t first = 0; first < x.size(); first += block) {
        const std::span<const double> run = x.subspan(first, std::min(block, x.size() - first));
        const double scale = scale_of(amax_of(run));
        const Message part = encode_float_row(run, scale, grid, stream, false, first);
        for (const auto row : {&Message::values, &Message::codes, &Message::bias, &Message::variance}) {
            (m.*row).insert((m.*row).end(), (part.*row).begin(), (part.*row).end());
        }
        for (std::size_t i = 0; i < part.saturated.size(); ++i) {
            if (part.saturated[i] != 0) mark(m.saturated, first + i, x.size());
        }
        if (part.grid_use) m.grid_use->merge(*part.grid_use);
        m.block_use->add(x, m.saturated, first, run.size(), 1.0 / scale);
        m.side_bits += static_cast<std::uint64_t>(scale_bits);
    }
    m.payload_bits = payload_bits(grid, x.size());
    if (packs) m.payload = pack_float_codes(m.codes, grid.format);
    m.codes.clear();  // of different scales: not to be added
    return m;
}

}  // namespace apscope::detail
