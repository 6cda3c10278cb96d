// The shift s of a unit (a tensor, a bucket, or all tensors under a loss scale) from the unit's
// agreed amax, and the memory of shifts. H is the headroom factor (headroom.h). All schemes whose
// scale is a power of two computed from H amax use this rule.
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
    bool tight = false;
    // After this number of equal consecutive shifts, the shift is constant; 0: never.
    long frozen = 0;
    bool delayed = false;  // the shift of the step before is in force

    // Reads the format and the keys `headroom` and `rule`.
    static ShiftRule of(const SchemeArguments& arguments);

    bool remembers() const { return frozen > 0 || delayed; }

    // The shift for max(amax, 2^-126); 0 if the amax is 0.
    int shift(double amax, int workers) const;

    // The shift in force. `last` and `run` are a unit's memory: its last shift, and the number of
    // consecutive steps with it; run = 0 before the first. Steps with only zeros do not change the
    // memory.
    int next(double amax, int workers, int& last, long& run) const;
};

}  // namespace apscope::detail
