#include "emulation/codecs/levels.h"

#include <algorithm>
#include <cmath>

#include "emulation/codecs/bits.h"
#include "emulation/reduce_kernels.h"
#include "emulation/simd.h"

namespace apscope {

namespace {

// above[i] = how many levels are at most u[i] = x[i] / unit, for a group of elements. Few levels are all compared,
// which is vector code; many are searched.
constexpr std::size_t group = 64;
struct CountLevels {
    static APSCOPE_INLINE void run(const double* x, double unit, std::size_t count, const double* levels, std::size_t level_count, double* u,
                                   std::int64_t* above) {
        for (std::size_t i = 0; i < count; ++i) {
            u[i] = x[i] / unit;
            above[i] = 0;
        }
        for (std::size_t l = 0; l < level_count; ++l) {
            const double level = levels[l];
            for (std::size_t i = 0; i < count; ++i) above[i] += level <= u[i];
        }
    }
};
void search_levels(const double* x, double unit, std::size_t count, std::span<const double> levels, double* u, std::int64_t* above) {
    for (std::size_t i = 0; i < count; ++i) {
        u[i] = x[i] / unit;
        above[i] = std::upper_bound(levels.begin(), levels.end(), u[i]) - levels.begin();
    }
}

// Of u from `low` on, `gap` below the next level.
bool is_nearer_to_next(double u, double low, double gap) { return (u - low) / gap >= 0.5; }

}  // namespace

std::size_t nearest_level(double u, std::span<const double> levels) {
    const auto above = static_cast<std::size_t>(std::upper_bound(levels.begin(), levels.end(), u) - levels.begin());
    if (above == 0) return 0;
    const std::size_t code = above - 1;
    if (above == levels.size()) return code;
    return is_nearer_to_next(u, levels[code], levels[above] - levels[code]) ? above : code;
}

int level_bits(std::size_t levels) {
    int bits = 1;
    while ((std::size_t{1} << bits) < levels) ++bits;
    return bits;
}

Message encode_levels(std::span<const double> x, std::span<const double> levels, double scale, LevelRule rule,
                      const RandomStream& stream, bool packs, std::size_t first) {
    const std::size_t n = x.size();
    const double unit = scale == 0.0 ? 1.0 : scale;
    const double words_count = std::ldexp(1.0, stream.random_bits);
    const int width = level_bits(levels.size());
    Message m;
    m.values.resize(n);
    m.codes.resize(n);
    if (rule == LevelRule::stochastic) {
        m.bias.resize(n);
        m.variance.resize(n);
    }
    RandomWords words(stream);
    BitWriter bits;
    double scaled[group];
    std::int64_t places[group];
    for (std::size_t i = 0; i < n; ++i) {
        if (i % group == 0) {
            const std::size_t count = std::min(group, n - i);
            if (levels.size() <= 48) simd::run<CountLevels>(x.data() + i, unit, count, levels.data(), levels.size(), scaled, places);
            else search_levels(x.data() + i, unit, count, levels, scaled, places);
        }
        const double u = scaled[i % group];
        const auto above = static_cast<std::size_t>(places[i % group]);
        std::size_t code = above == 0 ? 0 : above - 1;  // the lower neighbour
        double p = 0.0;
        if (above != 0 && above != levels.size()) {
            const double low = levels[code], gap = levels[above] - low;
            if (rule == LevelRule::nearest) {
                code += is_nearer_to_next(u, low, gap) ? 1 : 0;
            } else {
                const double eta = (u - low) / gap;
                const double up = std::floor(eta * words_count);  // of 2^N words, this many go up
                const double random = static_cast<double>(words.at(first + i) >> (64 - stream.random_bits));
                p = up / words_count;
                m.bias[i] = (low + p * gap) * unit - x[i];
                m.variance[i] = p * (1.0 - p) * ((gap * unit) * (gap * unit));
                code += up + random >= words_count ? 1 : 0;
            }
        } else if (rule == LevelRule::stochastic) {
            m.bias[i] = levels[code] * unit - x[i];
        }
        m.codes[i] = static_cast<double>(code);
        m.values[i] = levels[code] * unit;
        if (packs) bits.put(code, width);
    }
    m.payload_bits = n * static_cast<std::uint64_t>(width);
    if (packs) m.payload = bits.take();
    return m;
}

}  // namespace apscope
