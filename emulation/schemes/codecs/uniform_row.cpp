#include "emulation/schemes/codecs/uniform_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulation/draws/random_words.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

// Of each bucket, an fp32 number.
std::vector<float> norms_of(std::span<const double> row, const UniformGrid& grid) {
    std::vector<float> norms;
    for (std::size_t begin = 0; begin < row.size(); begin += grid.bucket) {
        const std::span<const double> values = row.subspan(begin, std::min(grid.bucket, row.size() - begin));
        const double norm = grid.norm == BucketNorm::l2 ? std::sqrt(sum_of_squares(values)) : amax_of(values);
        norms.push_back(static_cast<float>(std::min(norm, static_cast<double>(std::numeric_limits<float>::max()))));
    }
    return norms;
}

}  // namespace

int UniformGrid::code_bits() const {
    int bits = 1;
    while ((1L << bits) < 2L * levels + 1) ++bits;
    return bits;
}

void quantize_uniform(std::span<const double> in, std::span<double> out, const UniformGrid& grid, std::span<const float> norms,
                      const RandomStream& stream, std::size_t first, std::span<double> bias, std::span<double> variance,
                      std::span<double> drawn_levels) {
    double words[random_group];
    const double levels = grid.levels;
    const double words_count = std::ldexp(1.0, grid.random_bits);
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (i % random_group == 0) random_words(stream, first + i, std::min(random_group, in.size() - i), words);
        const double g = in[i];
        const double norm = norms[(first + i) / grid.bucket];
        double y = g, e = 0.0, v = 0.0, drawn = 0.0;
        if (norm > 0.0) {
            const double size = std::abs(g);
            const double u = std::min(levels * size / norm, levels);  // a norm may be rounded down
            const double level = std::floor(u);
            const double t = std::floor((u - level) * words_count);  // of 2^N words, this many round up
            drawn = level + (t + words[i % random_group] >= words_count ? 1.0 : 0.0);
            const double p = t / words_count;
            y = std::copysign(drawn * norm / levels, g);
            drawn = std::copysign(drawn, g);
            e = (level + p) * norm / levels - size;
            e = g < 0 ? -e : e;
            v = p * (1.0 - p) * ((norm / levels) * (norm / levels));
        }
        out[i] = y;
        drawn_levels[i] = drawn;
        bias[i] = e;
        variance[i] = v;
    }
}

Message encode_uniform_row(std::span<const double> x, const UniformGrid& grid, const RandomStream& stream, bool packs) {
    const std::vector<float> norms = norms_of(x, grid);
    Message m;
    for (Row* row : {&m.values, &m.codes, &m.bias, &m.variance}) row->resize(x.size());
    quantize_uniform(x, m.values, grid, norms, stream, 0, m.bias, m.variance, m.codes);
    m.payload_bits = grid.payload_bits(x.size());
    m.side_bits = 32 * norms.size();
    if (!packs) return m;
    BitWriter bits;  // a level is sent as its distance from the lowest
    for (const double level : m.codes) bits.put(static_cast<std::uint64_t>(level + grid.levels), grid.code_bits());
    m.payload = bits.take();
    return m;
}

}  // namespace apscope::detail
