// A codebook: sorted levels times a scale. A value is rounded to one of its two neighbours. Uniform
// levels, signs, ternary codes and optimised tables all use this routine.
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class LevelRule { nearest, stochastic };  // nearest: a tie goes to the upper level

// Levels that ascend strictly, and the method that finds a value's place among them.
class LevelTable {
public:
    explicit LevelTable(Row levels);
    const Row& levels() const { return levels_; }
    bool are_few() const { return few_; }            // few enough to compare a value with all
    bool are_integers() const { return integers_; }  // consecutive integers

private:
    Row levels_;
    bool few_, integers_;
};

// values[i] = scale levels[codes[i]], codes of ceil(log2(levels)) bits (at least 1). If x / scale
// is beyond an end, the result is the end. Stochastic rounding goes up with probability floor(eta
// 2^N) / 2^N, by the element's random word: N is the number of the stream's random bits (at most
// 53), eta the fraction of the interval in fp64. A scale of 0 is treated as 1. x and scale are
// finite. x[0] is element `first` of the stream.
void encode_levels(Message& m, std::span<const double> x, const LevelTable& table, double scale,
                   LevelRule rule, const RandomStream& stream, bool packs, std::size_t first = 0);
// Encodes x into the elements from `at` on of a message after prepare(), without payload.
void put_levels(Message& m, std::size_t at, std::span<const double> x, const LevelTable& table,
                double scale, LevelRule rule, const RandomStream& stream, std::size_t first);
Message encode_levels(std::span<const double> x, std::span<const double> levels, double scale,
                      LevelRule rule, const RandomStream& stream, bool packs,
                      std::size_t first = 0);

// Sets the message's payload: its codes, with `width` bits each.
void set_payload(Message& m, int width, bool packs);

// The code of u with LevelRule::nearest.
std::size_t nearest_level(double u, std::span<const double> levels);

// The bits of a code of a table with this number of levels.
int level_bits(std::size_t levels);

}  // namespace apscope::detail
