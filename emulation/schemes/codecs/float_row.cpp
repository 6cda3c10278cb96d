#include "emulation/schemes/codecs/float_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/codec.h"
#include "core/stochastic_moments.h"
#include "emulation/draws/random_words.h"
#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

std::vector<std::uint8_t> pack_float_codes(std::span<const double> codes, const FloatFormat& format) {
    const BasicCodec<double> codec = make_codec<double>(format);
    BitWriter bits;
    for (const double c : codes) bits.put(encode_one<double>(c, codec), format.storage_bits());
    return bits.take();
}

namespace {

// in_blocks: runs are blocks with scales of their own.
void encode_runs(Message& m, std::span<const double> x, std::span<const double> scales, std::size_t run, bool in_blocks, const FloatGrid& grid,
                 const RandomStream& stream, bool packs, const Place& place) {
    const std::size_t first = place.first;
    const std::size_t n = x.size();
    const Cast<double> cast = make_cast<double>(grid.format, grid.projection);
    const bool drawn = is_stochastic(grid.projection.rounding);
    m.prepare(n, true, drawn);
    m.certain = !drawn;
    GridUse use;
    BlockUse blocks;
    const GridLimits limits = limits_of(grid.format, cast);
    std::uint64_t words[random_group];
    for (std::size_t begin = 0; begin < n;) {
        const std::size_t at = (first + begin) / run, left = run - (first + begin) % run, end = begin + std::min(left, n - begin);
        const double scale = scales[at];
        for (std::size_t i = begin; i < end; ++i) {
            if (drawn && i % random_group == 0) random_words(stream, first + i, std::min(random_group, n - i), words);
            const double scaled = x[i] * scale;
            m.codes[i] = round_one<double>(scaled, cast, drawn ? words[i % random_group] : 0);
            m.values[i] = m.codes[i] / scale;
            if (std::isfinite(x[i]) && use.add(x[i], m.codes[i], m.values[i], scale, limits)) mark(m.saturated, i, n);
            if (!drawn) continue;
            const RoundingMoments moments = stochastic_moments(scaled, cast);
            m.bias[i] = moments.defined ? moments.bias / scale : std::nan("");
            m.variance[i] = moments.defined ? moments.variance / scale / scale : std::nan("");
        }
        if (in_blocks) {
            blocks.add(x, m.saturated, begin, end - begin, 1.0 / scale, (first + begin) % run == 0,
                       (first + end) % run == 0 || first + end == place.size);
        }
        begin = end;
    }
    m.grid_use = use;
    if (in_blocks) m.block_use = blocks;
    m.payload_bits = payload_bits(grid, n);
    if (packs) m.payload = pack_float_codes(m.codes, grid.format);
}

}  // namespace

void encode_float_row(Message& m, std::span<const double> x, double scale, const FloatGrid& grid, const RandomStream& stream, bool packs,
                      std::size_t first) {
    constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();
    encode_runs(m, x, std::span(&scale, 1), endless, false, grid, stream, packs, {first, endless});
}

void encode_float_row(Message& m, std::span<const double> x, std::span<const double> scales, std::size_t run, const FloatGrid& grid,
                      const RandomStream& stream, bool packs, const Place& place) {
    encode_runs(m, x, scales, run, true, grid, stream, packs, place);
}

}  // namespace apscope::detail
