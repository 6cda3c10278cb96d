// The shift s of a unit (a tensor, a bucket) from its agreed amax, and what is remembered of it.
#pragma once

#include <string>

#include "core/float_format.h"

namespace apscope {

struct ShiftRule {
    FloatFormat format;
    std::string headroom;
    bool tight = false;   // the largest s with H amax 2^s <= largest, instead of E - ceil(log2(H amax))
    long frozen = 0;      // after so many equal shifts in a row the shift stays; 0: never
    bool delayed = false;  // the shift of the step before is in force

    bool remembers() const { return frozen > 0 || delayed; }

    // Of this amax, which counts as at least 2^-126; 0 if it is 0.
    int own(double amax, int workers) const;

    // The shift in force. `last` and `run` are a unit's memory: its last shift and how often in a row it was
    // that; run = 0 before the first. Steps in which all is zero leave the memory as it is.
    int next(double amax, int workers, double& last, double& run) const;
};

}  // namespace apscope
