#include "emulation/schemes/codecs/uniform_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulation/draws/random_words.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

Row bucket_norms(const RowReader& row, const UniformGrid& grid) {
    Row norms;
    if (grid.norm == BucketNorm::l2) {
        norms = sums_of_runs(row, grid.bucket, [](double v) { return v * v; });
        for (double& norm : norms) norm = std::sqrt(norm);
    } else {
        norms.assign((row.size + grid.bucket - 1) / grid.bucket, 0.0);
        raise_to_amax(row, grid.bucket, norms);
    }
    for (double& norm : norms)
        norm = static_cast<float>(
            std::min(norm, static_cast<double>(std::numeric_limits<float>::max())));
    return norms;
}

int UniformGrid::code_bits() const {
    int bits = 1;
    while ((1L << bits) < 2L * levels + 1) ++bits;
    return bits;
}

namespace {

struct Rounded {
    double *values, *bias, *variance, *levels;
};
// Rounds elements that share one norm, which is above 0.
struct RoundUnderNorm {
    static APSCOPE_INLINE void run(const double* in, const double* words, std::size_t count,
                                   double norm, double levels, double words_count,
                                   const Rounded* out) {
        const Rounded o = *out;
        const double gap = norm / levels, spread = gap * gap;
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double g = in[i], size = std::abs(g), unclipped = levels * size / norm;
            // The norm may be rounded down, so u is clipped.
            const double u = levels < unclipped ? levels : unclipped;
            const double level = std::floor(u);
            // Of 2^N possible random words, this number rounds up.
            const double up = std::floor((u - level) * words_count);
            const double drawn = level + (up + words[i] >= words_count ? 1.0 : 0.0),
                         p = up / words_count;
            const double error = (level + p) * norm / levels - size;
            o.values[i] = std::copysign(drawn * norm / levels, g);
            o.levels[i] = std::copysign(drawn, g);
            o.bias[i] = g < 0 ? -error : error;
            o.variance[i] = p * (1.0 - p) * spread;
        }
    }
};

}  // namespace

void quantize_uniform(std::span<const double> in, std::span<double> out, const UniformGrid& grid,
                      std::span<const double> norms, const RandomStream& stream, std::size_t first,
                      std::span<double> bias, std::span<double> variance,
                      std::span<double> drawn_levels) {
    const double words_count = std::ldexp(1.0, grid.random_bits);
    double drawn[random_group];
    for (std::size_t begin = 0; begin < in.size(); begin += random_group) {
        const std::size_t group_end = std::min(begin + random_group, in.size());
        double* words = drawn;
        random_words(stream, first + begin, group_end - begin, words);
        for (std::size_t i = begin; i < group_end;) {  // each pass handles one bucket
            const std::size_t bucket = (first + i) / grid.bucket,
                              left = grid.bucket - (first + i) % grid.bucket;
            const std::size_t count = std::min(left, group_end - i);
            const Rounded rounded{out.data() + i, bias.data() + i, variance.data() + i,
                                  drawn_levels.data() + i};
            if (norms[bucket] > 0.0) {
                simd::run<RoundUnderNorm>(
                    in.data() + i, static_cast<const double*>(words + (i - begin)), count,
                    norms[bucket], static_cast<double>(grid.levels), words_count, &rounded);
            } else {
                std::copy_n(in.data() + i, count, rounded.values);
                for (double* row : {rounded.bias, rounded.variance, rounded.levels})
                    std::fill_n(row, count, 0.0);
            }
            i += count;
        }
    }
}

void encode_uniform_row(Message& m, std::span<const double> x, const UniformGrid& grid,
                        std::span<const double> norms, const RandomStream& stream, bool packs,
                        std::size_t first) {
    m.prepare(x.size(), true, true);
    quantize_uniform(x, m.values, grid, norms, stream, first, m.bias, m.variance, m.codes);
    m.payload_bits = grid.payload_bits(x.size());
    m.side_bits = 32 * norms.size();
    if (!packs) return;
    BitWriter bits;  // a level is sent as its distance from the lowest level
    for (const double level : m.codes)
        bits.put(static_cast<std::uint64_t>(level + grid.levels), grid.code_bits());
    m.payload = bits.take();
}

}  // namespace apscope::detail
