// Elias' codes of the integers from 1, shorter for the smaller, and sparse integer rows in them.
//
//      gamma    floor(log2 k) zeros, then k, high bit first
//      delta    the length of k in gamma, then k without its high bit
//      omega    the recursive one: groups, each the length less one of the next, high bit first;
//               then a 0
//
// P. Elias, Universal codeword sets and representations of the integers, IEEE Trans. Inf. Theory 21
// (1975).
#pragma once

#include <cstdint>
#include <span>

#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

enum class EliasCode { gamma, delta, omega };

// Appends the code of k >= 1.
void put_elias(BitWriter& bits, std::uint64_t k, EliasCode code);

// Appends for each integer that is not 0: the distance from the one before (for the first, from
// before the row), its sign (1: negative), its magnitude. If the last integer of the row is 0, the
// distance to behind the row's end follows.
void put_sparse(BitWriter& bits, std::span<const double> integers, EliasCode code);

}  // namespace apscope::detail
