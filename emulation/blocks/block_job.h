// A block format and a projection, prepared for the loops of block_kernels.h if the loops support
// this pair.
#pragma once

#include <cmath>
#include <cstdint>

#include "emulation/blocks/block_kernels.h"
#include "emulation/blocks/block_rule.h"

namespace apscope::detail {

template <class Real>
struct BlockJob {
    BlockEncoder encoder;
    // False if the loops support no block. If true, the kernels of the scales decide which blocks
    // they support.
    bool served = false;
    // ratio: the scale rule is `ratio`. few: at most 24 random bits suffice. draws: the mode is
    // stochastic.
    bool ratio = false, few = true, draws = false;
    BlockCast<Real> cast{};
    PowerScaleRule<Real> power{};
    RatioScaleRule ratio_rule{};
    int min_scale_code = 0;  // code of 2^power.min; each further power of two has the next code
};

// The fraction bits of the smallest Real that is not below `from`; 1 <= `from` <= 2.
template <class Real>
BitsOf<Real> fraction_from(double from) {
    Real first = static_cast<Real>(from);
    if (first < from) first = std::nextafter(first, Real{2});
    return bits_cast<BitsOf<Real>>(first) - bits_cast<BitsOf<Real>>(Real{1});
}

// Makes the job. If the format has a tensor scale, the encoder's set_tensor_scale() must have been
// called.
template <class Real>
BlockJob<Real> make_block_job(BlockEncoder encoder);

// These functions round or encode `count` elements of blocks that the loops support. If steps > 0,
// the blocks have `steps` times block_step elements each, and `scales` has one scale per block; if
// steps = 0, it has one scale per element. `drawn` has one random integer per element for
// stochastic modes. block_loops.h chooses the loop.
template <class Real>
void round_block_elements(const BlockJob<Real>& job, const Real* in, Real* out, std::size_t count,
                          std::size_t steps, const BlockScales<Real>& scales,
                          const std::uint32_t* drawn);
template <class Real>
void encode_block_elements(const BlockJob<Real>& job, const Real* in, std::uint8_t* out,
                           std::size_t count, std::size_t steps, const BlockScales<Real>& scales,
                           const std::uint32_t* drawn);

}  // namespace apscope::detail
