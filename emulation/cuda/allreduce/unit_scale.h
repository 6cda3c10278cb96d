// Powers of two for units of consecutive elements on a GPU, from the bits of each unit's amax, by
// the operations of a block format's scale (block_scale.h).
#pragma once

#include <cstdint>
#include <functional>

#include "emulation/cuda/allreduce/wire_scale.h"
#include "emulation/cuda/blocks/block_scale.h"

namespace apscope::detail {

// The exponent of the scale as a function of amax (UnitEncoding::shift in
// emulation/schemes/block_encoding.h) in the form of a block's: k = -shift, in every binade two
// neighbouring numbers. Host only.
inline BlockScaling make_unit_scaling(const std::function<int(double)>& shift) {
    const std::uint32_t one = bits_cast<std::uint32_t>(1.0f), fractions = 1u << 23;
    const auto at = [&](std::uint32_t bits) { return shift(bits_cast<float>(bits)); };
    std::uint32_t same = 0, other = fractions;  // the last fraction with the shift of 1, the next
    while (other - same > 1) {
        const std::uint32_t middle = same + (other - same) / 2;
        (at(one + middle) == at(one) ? same : other) = middle;
    }
    BlockScaling s{};
    s.rule = ScaleRule::floor;
    s.nan_from = ~std::uint32_t{0};
    s.counted_below = infinity_bits<float>;
    s.exponent_offset = 127 + at(one);
    s.round_up_from = other;
    s.min_exponent = -shift(0x1p-126);
    s.max_exponent = 1 << 20;
    s.zero_exponent = -shift(0.0);
    return s;
}

// The wire of codes under the scale 2^-k.
APSCOPE_HD WireScale unit_wire(int k) {
    return {double_power_of_two(-k), double_power_of_two(k), false};
}

// The scales of a shard's sum; element i is the i-th of the shard.
struct UnitWires {
    const std::uint32_t* amax_bits;
    BlockScaling scaling;
    int unit_bits;  // log2 of the number of elements of a unit

    APSCOPE_HD WireScale at(std::uint64_t, std::uint64_t i) const {
        return unit_wire(block_exponent(scaling, amax_bits[i >> unit_bits]));
    }
};

}  // namespace apscope::detail
