// Rounding to a codebook of sorted levels times a scale. A value is rounded to one of its two
// neighbouring levels. Uniform levels, signs, ternary codes and optimised tables are such
// codebooks.
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class LevelRule { nearest, stochastic };  // nearest: a tie goes to the upper level

// Levels in strictly ascending order, and the method that finds a value's neighbours among them.
class LevelTable {
public:
    explicit LevelTable(Row levels);
    const Row& levels() const { return levels_; }
    bool are_few() const { return few_; }  // so few that a value is compared with every level
    bool are_integers() const { return integers_; }  // consecutive integers

private:
    Row levels_;
    bool few_, integers_;
};

// values[i] = scale levels[codes[i]], where codes have ceil(log2(levels)) bits, at least 1. If x /
// scale is beyond the first or the last level, the result is that level. Stochastic rounding goes
// up with probability floor(eta 2^N) / 2^N, depending on the element's random word: N is the number
// of the stream's random bits (at most 53), eta the fraction of the interval in fp64. A scale of 0
// is treated as 1. x and scale must be finite. x[0] uses the random word of element `first`.
void encode_levels(Message& m, std::span<const double> x, const LevelTable& table, double scale,
                   LevelRule rule, const RandomStream& stream, bool packs, std::size_t first = 0);
// Encodes x, without payload, into a message after prepare(), from the message's element `at` on.
void put_levels(Message& m, std::size_t at, std::span<const double> x, const LevelTable& table,
                double scale, LevelRule rule, const RandomStream& stream, std::size_t first);
Message encode_levels(std::span<const double> x, std::span<const double> levels, double scale,
                      LevelRule rule, const RandomStream& stream, bool packs,
                      std::size_t first = 0);

// Sets the message's payload: its codes, with `width` bits each.
void set_payload(Message& m, int width, bool packs);

// The code, that is the index of the level, of u with LevelRule::nearest.
std::size_t nearest_level(double u, std::span<const double> levels);

// The number of bits of a code for this number of levels.
int level_bits(std::size_t levels);

}  // namespace apscope::detail
