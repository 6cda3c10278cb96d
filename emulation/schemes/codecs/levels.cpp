#include "emulation/schemes/codecs/levels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "emulation/draws/random_words.h"
#include "emulation/machine/divide.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = random_group;

// The next three functions compute, for a group of elements, above[i] = the number of levels that
// are at most u[i] = x[i] / unit. CountLevels compares with all levels, if there are few;
// CountIntegers, for consecutive integers, needs no comparison; search_levels() makes a binary
// search.
constexpr std::size_t compared_levels = 48;
struct CountLevels {
    static APSCOPE_INLINE void run(const double* x, double unit, std::size_t count,
                                   const double* levels, std::size_t level_count, double* u,
                                   double* above) {
        divide_by(unit, [&](auto quotient) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < count; ++i) {
                u[i] = quotient(x[i]);
                above[i] = 0.0;
            }
        });
        std::size_t l = 0;
        for (; l + 4 <= level_count; l += 4) {  // four levels per pass
            const double a = levels[l], b = levels[l + 1], c = levels[l + 2], d = levels[l + 3];
            for (std::size_t i = 0; i < count; ++i) {
                double n = above[i];
                n = a <= u[i] ? n + 1.0 : n;
                n = b <= u[i] ? n + 1.0 : n;
                n = c <= u[i] ? n + 1.0 : n;
                above[i] = d <= u[i] ? n + 1.0 : n;
            }
        }
        for (; l < level_count; ++l) {
            const double level = levels[l];
            for (std::size_t i = 0; i < count; ++i) above[i] += level <= u[i] ? 1.0 : 0.0;
        }
    }
};
struct CountIntegers {
    static APSCOPE_INLINE void run(const double* x, double unit, std::size_t count, double first,
                                   double last, double* u, double* above) {
        constexpr double integers = 0x1.8p52;  // adding and subtracting this rounds to an integer
        for (std::size_t i = 0; i < count; ++i) {
            u[i] = x[i] / unit;
            const double low = u[i] < first ? first - 1.0 : u[i], inside = low > last ? last : low;
            const double nearest = (inside + integers) - integers;
            const double floor = nearest > inside ? nearest - 1.0 : nearest;
            above[i] = floor - first + 1.0;
        }
    }
};
void search_levels(const double* x, double unit, std::size_t count, std::span<const double> levels,
                   double* u, double* above) {
    for (std::size_t i = 0; i < count; ++i) {
        u[i] = x[i] / unit;
        above[i] = static_cast<double>(std::upper_bound(levels.begin(), levels.end(), u[i]) -
                                       levels.begin());
    }
}
bool are_integers(std::span<const double> levels) {
    const double first = levels[0];
    bool all = first == std::floor(first) && std::abs(first) < 0x1p30 && levels.size() < 0x1p30;
    for (std::size_t l = 0; l < levels.size() && all; ++l)
        all = levels[l] == first + static_cast<double>(l);
    return all;
}

// The output: codes, their decoded values, and the moments of stochastic rounding.
struct Outcome {
    double *codes, *values, *bias, *variance;
};
struct RoundStochastically {
    static APSCOPE_INLINE void run(const double* x, const double* u, const double* above,
                                   const double* random, std::size_t count, const double* levels,
                                   double last_level, double unit, double words_count,
                                   const Outcome* out) {
        const Outcome o = *out;
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double place = above[i], below = place - 1.0;
            const double first = below < 0.0 ? 0.0 : below,
                         second = place > last_level ? last_level : place;
            const auto lower = static_cast<std::int32_t>(first),
                       upper = static_cast<std::int32_t>(second);
            const bool inside = first != second;
            const double low = levels[lower], high = levels[upper], gap = high - low;
            const double eta = (u[i] - low) / gap, words_up = std::floor(eta * words_count);
            const double up =
                inside ? words_up : 0.0;  // of 2^N possible random words, the number that round up
            const double p = up / words_count;
            const bool goes_up = up + random[i] >= words_count;
            o.bias[i] = (inside ? low + p * gap : low) * unit - x[i];
            o.variance[i] = p * (1.0 - p) * ((gap * unit) * (gap * unit));
            o.codes[i] = goes_up ? second : first;
            o.values[i] = (goes_up ? high : low) * unit;
        }
    }
};

// True if u, between the levels `low` and low + gap, is nearer to low + gap or in the middle.
APSCOPE_INLINE bool is_nearer_to_next(double u, double low, double gap) {
    return (u - low) / gap >= 0.5;
}

struct RoundNearest {
    static APSCOPE_INLINE void run(const double* u, const double* above, std::size_t count,
                                   const double* levels, double last_level, double unit,
                                   double* codes, double* values) {
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double place = above[i], below = place - 1.0;
            const double first = below < 0.0 ? 0.0 : below,
                         second = place > last_level ? last_level : place;
            const double low = levels[static_cast<std::int32_t>(first)],
                         high = levels[static_cast<std::int32_t>(second)];
            const bool up = (first != second) & is_nearer_to_next(u[i], low, high - low);
            codes[i] = up ? second : first;
            values[i] = (up ? high : low) * unit;
        }
    }
};

}  // namespace

std::size_t nearest_level(double u, std::span<const double> levels) {
    const auto above = static_cast<std::size_t>(std::upper_bound(levels.begin(), levels.end(), u) -
                                                levels.begin());
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

void set_payload(Message& m, int width, bool packs) {
    m.payload_bits = m.codes.size() * static_cast<std::uint64_t>(width);
    if (!packs) return;
    BitWriter bits;
    for (const double code : m.codes) bits.put(static_cast<std::uint64_t>(code), width);
    m.payload = bits.take();
}

LevelTable::LevelTable(Row levels)
    : levels_(std::move(levels)), few_(levels_.size() <= compared_levels),
      integers_(!few_ && detail::are_integers(levels_)) {}

Message encode_levels(std::span<const double> x, std::span<const double> levels, double scale,
                      LevelRule rule, const RandomStream& stream, bool packs, std::size_t first) {
    Message m;
    encode_levels(m, x, LevelTable(Row(levels.begin(), levels.end())), scale, rule, stream, packs,
                  first);
    return m;
}

void encode_levels(Message& m, std::span<const double> x, const LevelTable& table, double scale,
                   LevelRule rule, const RandomStream& stream, bool packs, std::size_t first) {
    m.prepare(x.size(), true, rule == LevelRule::stochastic);
    put_levels(m, 0, x, table, scale, rule, stream, first);
    set_payload(m, level_bits(table.levels().size()), packs);
}

void put_levels(Message& m, std::size_t at, std::span<const double> x, const LevelTable& table,
                double scale, LevelRule rule, const RandomStream& stream, std::size_t first) {
    const std::size_t n = x.size();
    const Row& levels = table.levels();
    const double unit = scale == 0.0 ? 1.0 : scale;
    const double words_count = std::ldexp(1.0, stream.random_bits);
    double scaled[group], random[group], places[group];
    for (std::size_t begin = 0; begin < n; begin += group) {
        const std::size_t count = std::min(group, n - begin);
        const double* part = x.data() + begin;
        double* u = scaled;
        double* above = places;
        if (table.are_few())
            simd::run<CountLevels>(part, unit, count, levels.data(), levels.size(), u, above);
        else if (table.are_integers())
            simd::run<CountIntegers>(part, unit, count, levels.front(), levels.back(), u, above);
        else search_levels(part, unit, count, levels, u, above);
        if (rule == LevelRule::stochastic) {
            random_words(stream, first + begin, count, random);
            const std::size_t to = at + begin;
            const Outcome outcome{m.codes.data() + to, m.values.data() + to, m.bias.data() + to,
                                  m.variance.data() + to};
            simd::run<RoundStochastically>(
                part, static_cast<const double*>(u), static_cast<const double*>(above),
                static_cast<const double*>(random), count, levels.data(),
                static_cast<double>(levels.size() - 1), unit, words_count, &outcome);
            continue;
        }
        simd::run<RoundNearest>(static_cast<const double*>(u), static_cast<const double*>(above),
                                count, levels.data(), static_cast<double>(levels.size() - 1), unit,
                                m.codes.data() + at + begin, m.values.data() + at + begin);
    }
}

}  // namespace apscope::detail
