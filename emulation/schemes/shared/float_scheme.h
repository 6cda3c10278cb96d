// What every scheme on a float grid shares: its keys, and how they become a grid and a reduction.
#pragma once

#include <vector>

#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

// The scheme's own keys first, then rounding, overflow, random_bits, accumulate and hop_rounding.
std::vector<SchemeKey> float_keys(std::vector<SchemeKey> own = {}, std::string_view rounding = "ties_to_even",
                                  std::string_view overflow = "ieee");


// Fills grid and reduction from those keys.
void build_float(const SchemeArguments& arguments, Scheme& scheme);

// 2^s, s = rule.own(amax) for every tensor and step by itself. Of a rule that remembers nothing.
Select select_by_amax(const ShiftRule& rule);

// No side information.
SideBits no_side_bits();

}  // namespace apscope::detail
