#include "emulation/schemes/codecs/float_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/codec.h"
#include "core/fixed_shape_sum.h"
#include "core/stochastic_moments.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/cast/row_moments.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/row_use.h"

namespace apscope::detail {

std::vector<std::uint8_t> pack_float_codes(std::span<const double> codes,
                                           const FloatFormat& format) {
    const BasicCodec<double> codec = make_codec<double>(format);
    BitWriter bits;
    for (const double c : codes) bits.put(encode_one<double>(c, codec), format.storage_bits());
    return bits.take();
}

namespace {

struct ScaleRow {
    static APSCOPE_INLINE void run(const double* x, const double* scale, std::size_t count,
                                   double* scaled) {
        for (std::size_t i = 0; i < count; ++i) scaled[i] = x[i] * scale[i];
    }
};
struct Unscale {
    static APSCOPE_INLINE void run(const double* codes, double divisor, const double* scale,
                                   std::size_t count, double* values) {
        for (std::size_t i = 0; i < count; ++i) values[i] = codes[i] * divisor / scale[i];
    }
};
// The moments of rounding scaled numbers, in the units of the row; NaN if the rounding can
// overflow.
void state_moments(std::span<const double> scaled, const double* scale, const Cast<double>& cast,
                   double* bias, double* variance) {
    std::fill_n(bias, scaled.size(), 0.0);
    std::fill_n(variance, scaled.size(), 0.0);
    const bool defined =
        add_moments<double>(scaled.data(), scaled.size(), 1.0, cast, bias, variance);
    for (std::size_t i = 0; i < scaled.size(); ++i) {
        if (!std::isfinite(scaled[i])) {  // NaNs and infinities have no moments
            bias[i] = variance[i] = 0.0;
            continue;
        }
        const bool known = defined || stochastic_moments(scaled[i], cast).defined;
        bias[i] = known ? bias[i] / scale[i] : std::nan("");
        variance[i] = known ? variance[i] / scale[i] / scale[i] : std::nan("");
    }
}

// Encodes with one scale for every `run` elements; `lead` elements of the first run precede the
// row. in_blocks: runs count as blocks in the statistics.
void encode_runs(const RowPiece& p, std::span<const double> scales, std::size_t run,
                 std::size_t lead, bool in_blocks, const FloatGrid& grid, Message& m) {
    const std::span<const double> x = p.x;
    const RandomStream stream = p.stream(grid.projection.random_bits);
    const std::size_t first = p.place.first, shifted = lead + first;
    const std::size_t n = x.size();
    const RowCast rows(grid.format, grid.projection);
    const double divisor = grid.division.of(p.step.workers).before;
    const bool drawn = is_stochastic(grid.projection.rounding), divides = divisor != 1.0,
               describes = p.step.describes;
    // The moments of two successive draws are unknown.
    const bool has_moments = drawn && !divides && describes;
    m.prepare(n, true, has_moments);
    m.certain = !drawn;
    GridUse use;
    const GridLimits limits = limits_of(grid.format, rows.cast(), divisor);
    double scale[sum_block], undivided[sum_block];
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
        const std::size_t count = std::min(sum_block, n - begin);
        for (std::size_t i = 0; i < count;) {
            const std::size_t at = (shifted + begin + i) / run,
                              left = run - (shifted + begin + i) % run,
                              part = std::min(left, count - i);
            std::fill_n(scale + i, part, scales[at]);
            i += part;
        }
        const double *part = x.data() + begin, *under = scale;
        double *codes = m.codes.data() + begin, *values = m.values.data() + begin;
        simd::run<ScaleRow>(part, under, count, codes);
        if (has_moments)
            state_moments({codes, count}, scale, rows.cast(), m.bias.data() + begin,
                          m.variance.data() + begin);
        rows.round(codes, 1.0, codes, count, stream, first + begin);
        const double* rounded = codes;
        if (divides) {
            std::copy_n(codes, count, undivided);
            rounded = undivided;
            divide_codes({codes, count}, divisor, rows, p.stream(grid.projection.random_bits, 1),
                         first + begin);
        }
        simd::run<Unscale>(static_cast<const double*>(codes), divisor, under, count, values);
        if (!describes) continue;
        add_row(use, x.subspan(begin, count), rounded, values, scale, limits, m.saturated, begin,
                n);
    }
    if (describes) m.grid_use = use;
    if (describes && in_blocks) {
        BlockUse blocks;
        for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
            end = begin + std::min(run - (shifted + begin) % run, n - begin);
            blocks.add(x, m.saturated, begin, end - begin, 1.0 / scales[(shifted + begin) / run],
                       (shifted + begin) % run == 0 || first + begin == 0,
                       (shifted + end) % run == 0 || first + end == p.place.size);
        }
        m.block_use = blocks;
    }
    m.payload_bits = payload_bits(grid, n);
    if (p.packs()) m.payload = pack_float_codes(m.codes, grid.format);
}

}  // namespace

void encode_float_row(const RowPiece& p, double scale, const FloatGrid& grid, Message& m) {
    constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();
    encode_runs(p, std::span(&scale, 1), endless, 0, false, grid, m);
}

void encode_float_row(const RowPiece& p, std::span<const double> scales, std::size_t run,
                      const FloatGrid& grid, Message& m, std::size_t lead) {
    encode_runs(p, scales, run, lead, true, grid, m);
}

}  // namespace apscope::detail
