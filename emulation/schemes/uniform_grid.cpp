#include "emulation/schemes/uniform_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "emulation/arithmetic/reduce_kernels.h"
#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

namespace {

template <class Real>
double l2_norm(std::span<const Real> values) {
    double sum = 0.0;
    for (std::size_t b = 0; b < values.size(); b += sum_block) {
        sum += block_sum(std::min(sum_block, values.size() - b), [&](std::size_t i) {
            const double g = values[b + i];
            return std::isfinite(g) ? g * g : 0.0;
        });
    }
    return std::sqrt(sum);
}

template <class Real>
double max_norm(std::span<const Real> values) {
    double norm = 0.0;
    for (const double g : values) norm = std::isfinite(g) ? std::max(norm, std::abs(g)) : norm;
    return norm;
}

template <class Real>
std::vector<float> norms_of(std::span<const Real> row, std::size_t bucket, BucketNorm kind) {
    std::vector<float> norms;
    for (std::size_t begin = 0; begin < row.size(); begin += bucket) {
        const std::span<const Real> values = row.subspan(begin, std::min(bucket, row.size() - begin));
        const double norm = kind == BucketNorm::l2 ? l2_norm(values) : max_norm(values);
        norms.push_back(static_cast<float>(std::min(norm, static_cast<double>(std::numeric_limits<float>::max()))));
    }
    return norms;
}

// `levels`, if not empty, receives the signed level of each element.
template <class Real>
void quantize_values(std::span<const Real> in, std::span<double> out, const UniformGrid& grid, std::span<const float> norms,
                     const RandomStream& stream, std::size_t first, std::span<double> bias, std::span<double> variance,
                     std::span<double> drawn_levels) {
    RandomWords words(stream);
    const double levels = grid.levels;
    const double words_count = std::ldexp(1.0, grid.random_bits);
    for (std::size_t i = 0; i < in.size(); ++i) {
        const double g = in[i];
        const double norm = norms[(first + i) / grid.bucket];
        double y = g, e = 0.0, v = 0.0;
        if (std::isfinite(g) && norm > 0.0) {
            const double size = std::abs(g);
            const double u = std::min(levels * size / norm, levels);  // a norm may be rounded down
            const double level = std::floor(u);
            const double t = std::floor((u - level) * words_count);  // of 2^N words, this many round up
            const double random = static_cast<double>(words.at(first + i) >> (64 - grid.random_bits));
            const double drawn = level + (t + random >= words_count ? 1.0 : 0.0);
            const double p = t / words_count;
            y = std::copysign(drawn * norm / levels, g);
            if (!drawn_levels.empty()) drawn_levels[i] = std::copysign(drawn, g);
            e = (level + p) * norm / levels - size;
            e = g < 0 ? -e : e;
            v = p * (1.0 - p) * ((norm / levels) * (norm / levels));
        }
        out[i] = y;
        if (!bias.empty()) {
            bias[i] = e;
            variance[i] = v;
        }
    }
}

}  // namespace

std::vector<float> bucket_norms(std::span<const float> row, std::size_t bucket) { return norms_of(row, bucket, BucketNorm::l2); }

void quantize_uniform(std::span<const float> in, std::span<double> out, const UniformGrid& grid, std::span<const float> norms,
                      PhiloxKey key, std::uint32_t worker, std::size_t first, std::span<double> bias, std::span<double> variance) {
    const RandomStream stream{key, worker, stage_and_hop(Stage::wire, 0), grid.random_bits};
    quantize_values(in, out, grid, norms, stream, first, bias, variance, {});
}

Message encode_uniform_row(std::span<const double> x, const UniformGrid& grid, const RandomStream& stream, bool packs) {
    const std::vector<float> norms = norms_of(x, grid.bucket, grid.norm);
    Message m;
    for (Row* row : {&m.values, &m.codes, &m.bias, &m.variance}) row->resize(x.size());
    quantize_values(x, m.values, grid, norms, stream, 0, m.bias, m.variance, m.codes);
    m.payload_bits = x.size() * static_cast<std::uint64_t>(grid.code_bits());
    m.side_bits = 32 * norms.size();
    if (!packs) return m;
    BitWriter bits;  // a level is sent as its distance from the lowest
    for (const double level : m.codes) bits.put(static_cast<std::uint64_t>(level + grid.levels), grid.code_bits());
    m.payload = bits.take();
    return m;
}

}  // namespace apscope::detail
