// The exponent s of a scale 2^s (the shift) of a unit (a tensor, a bucket, or all tensors under a
// loss scale), computed from the unit's amax over all workers, and the memory of shifts. H is the
// headroom factor (headroom.h). All schemes whose scale is a power of two computed from H amax use
// this rule.
//
//      ceil     s = E - ceil(log2(H amax))      E = floor(log2 largest), so
//                                               2^(E-1) < H amax 2^s <= 2^E
//      tight    s = the largest integer with H amax 2^s <= largest
#pragma once

#include "core/float_format.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

struct ShiftRule {
    FloatFormat format;
    Headroom headroom = Headroom::workers;
    // True for rule=tight, false for rule=ceil.
    bool tight = false;
    // After this number of equal consecutive shifts, the shift stays constant; 0: the shift may
    // always change.
    long frozen = 0;
    bool delayed = false;  // true: a step uses the shift computed in the step before

    // Reads the format and the keys `headroom` and `rule`.
    static ShiftRule of(const SchemeArguments& arguments);

    bool remembers() const { return frozen > 0 || delayed; }

    // The shift for max(amax, 2^-126); 0 if the amax is 0.
    int shift(double amax, int workers) const;

    // The shift that the step uses. `last` and `run` are a unit's memory: the last computed shift,
    // and the number of consecutive steps with that shift; run is 0 before the first step. Steps
    // with only zeros do not change the memory.
    int next(double amax, int workers, int& last, long& run) const;
};

}  // namespace apscope::detail
