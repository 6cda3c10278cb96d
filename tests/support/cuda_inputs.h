// Inputs for the tests of GPU steps, and the steps run on the CPU.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "emulation/cuda/machine/lane_group.h"

namespace apscope::detail {

// The edges of every binade, subnormals, infinities and NaNs, and random bits between.
inline const std::vector<float>& edge_inputs() {
    static const std::vector<float> values = [] {
        std::vector<float> made;
        for (std::uint32_t top = 0; top < 1 << 16; ++top) {
            const std::uint32_t low = philox({{top, 0, 0, 0}}, {1, 2}).word[0] & 0xFFFF;
            made.push_back(std::bit_cast<float>(top << 16));
            made.push_back(std::bit_cast<float>(top << 16 | low));
        }
        return made;
    }();
    return values;
}

// Finite numbers of either sign with exponents -spread .. spread - 1.
inline std::vector<float> random_floats(std::size_t n, int spread, std::uint32_t seed) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) {
        const PhiloxBlock b = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, {seed, 9});
        const std::uint32_t exponent = static_cast<std::uint32_t>(127 - spread) +
                                       b.word[1] % static_cast<std::uint32_t>(2 * spread);
        values[i] = std::bit_cast<float>((b.word[0] & 0x80000000u) | exponent << 23 |
                                         (b.word[0] & 0x7FFFFFu));
    }
    return values;
}

// Runs every item or group of a step, the last first, because a step must not depend on the order.
template <class Step>
void run_on_cpu(const Step& step) {
    if constexpr (LaneGroupStep<Step>)
        for (std::uint64_t g = step.count() / Step::width; g-- > 0;) run_group(step, g);
    else
        for (std::uint64_t i = step.count(); i-- > 0;) step(i);
}

// Positions at which two arrays differ in their bits.
template <class A, class B>
std::size_t differing(const A& a, const B& b) {
    std::size_t count = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
        count += __builtin_memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    }
    return count;
}

}  // namespace apscope::detail
