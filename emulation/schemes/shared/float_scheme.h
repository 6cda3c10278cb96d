// Common parts of schemes on a float grid: the keys, and their grid and reduction.
#pragma once

#include <vector>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

// The keys' values if a spec does not name them.
struct FloatDefaults {
    std::string_view rounding = "ties_to_even", overflow = "ieee", accumulate = "format";
};

// The scheme's own keys first, then rounding, overflow, random_bits, accumulate and hop_rounding.
std::vector<SchemeKey> float_keys(std::vector<SchemeKey> own = {},
                                  const FloatDefaults& defaults = {});

// Grid, reduction and transport from those keys.
FloatScheme float_scheme(const SchemeArguments& arguments);

// Stochastic rounding to the format, gathered, the shift of each tensor from the agreed amax with
// headroom one. Keys: random_bits.
FloatScheme gathered_scheme(const SchemeArguments& arguments, const FloatFormat& format,
                            Overflow overflow);

// The same decision for every tensor and step.
Select select_constant(const Decision& decision);

// 2^s, s = rule.own(amax) for every tensor and step by itself. Of a rule without memory.
Select select_by_amax(const ShiftRule& rule);

}  // namespace apscope::detail
