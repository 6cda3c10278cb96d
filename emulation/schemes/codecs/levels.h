// A codebook: sorted levels times a scale, a value going to one of its two neighbours. Uniform
// levels, signs, ternary codes and optimised tables are all this one routine.
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class LevelRule { nearest, stochastic };  // nearest: a tie goes to the upper level

// Levels that ascend strictly, and how places among them are found.
class LevelTable {
public:
    explicit LevelTable(Row levels);
    const Row& levels() const { return levels_; }
    bool are_few() const { return few_; }            // enough to compare them all
    bool are_integers() const { return integers_; }  // consecutive ones

private:
    Row levels_;
    bool few_, integers_;
};

// values[i] = scale levels[codes[i]], codes of ceil(log2(levels)) bits (at least 1). x / scale
// beyond the ends takes the end. Stochastic: up with probability floor(eta 2^N) / 2^N, N = the
// stream's random bits (at most 53), eta the fraction of the interval in fp64, from the word of the
// element. A scale of 0 counts as 1. x and scale are finite. x[0] is element `first` of the stream.
void encode_levels(Message& m, std::span<const double> x, const LevelTable& table, double scale,
                   LevelRule rule, const RandomStream& stream, bool packs, std::size_t first = 0);
// The same of a part of a message that prepare() was called for: its elements from `at` on; no
// payload.
void put_levels(Message& m, std::size_t at, std::span<const double> x, const LevelTable& table,
                double scale, LevelRule rule, const RandomStream& stream, std::size_t first);
Message encode_levels(std::span<const double> x, std::span<const double> levels, double scale,
                      LevelRule rule, const RandomStream& stream, bool packs,
                      std::size_t first = 0);

// The message's payload: its codes, in so many bits each.
void set_payload(Message& m, int width, bool packs);

// The code of u with LevelRule::nearest.
std::size_t nearest_level(double u, std::span<const double> levels);

// Bits of a code of a table of so many levels.
int level_bits(std::size_t levels);

}  // namespace apscope::detail
