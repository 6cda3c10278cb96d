// What every scheme on a float grid shares: its keys, and how they become a grid and a reduction.
#pragma once

#include <vector>

#include "emulation/scheme.h"

namespace apscope {

// The scheme's own keys first, then rounding, overflow, random_bits, accumulate and hop_rounding.
std::vector<SchemeKey> float_keys(std::vector<SchemeKey> own = {}, std::string_view rounding = "ties_to_even",
                                  std::string_view overflow = "ieee");


// Fills grid and reduction from those keys.
void build_float(const SchemeArguments& arguments, Scheme& scheme);

// The power of two that brings H amax into (2^(E-1), 2^E], E = floor(log2 largest), for every tensor
// and step by itself; amax counts as at least 2^-126. An all-zero tensor has scale 1.
Select select_by_amax(const FloatFormat& format, std::string_view headroom);

// No side information.
SideBits no_side_bits();

}  // namespace apscope
