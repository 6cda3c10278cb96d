// NVFP4: e2m1 elements, sixteen of them under an e4m3 scale, all under one fp32 scale that the caller gives
// (apscope.BlockFormat's nvfp4 takes it from the array itself). Every operation is fp32, in this order:
//
//      S   = min(largest L / amax, FLT_MAX)           L = 448 6, or 256 6 where blocks may choose
//      d   = e4m3(amax of the block (S fl(1/6)))      saturating
//      e   = min(1 / (d fl(1/S)), FLT_MAX)            q = e2m1(clip(x e, +-6))      y = q d / S
//
// four_over_six: a block is also tried with its amax at 4 instead of 6, d = e4m3((fl(amax/6) S) 1.5), and
// takes what has the smaller sum of squared errors; of equals the first.
#pragma once

#include <span>

#include "core/projection.h"
#include "emulation/tensor_scheme.h"

namespace apscope {

struct Nvfp4 {
    Projection projection;       // of the elements; saturating
    bool four_over_six = false;

    // S for an agreed amax; 1 for 0.
    float tensor_scale(double amax) const;
    // x are fp32 numbers. Side bits: a scale a block, and 32.
    Message encode(std::span<const double> x, float tensor_scale, const RandomStream& stream, bool packs) const;
};

}  // namespace apscope
