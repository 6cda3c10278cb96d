// Elias' codes of integers k >= 1, which are shorter for smaller k, and the encoding of sparse rows
// of integers with these codes.
//
//      gamma    floor(log2 k) zeros, then k, high bit first
//      delta    the bit length of k in gamma, then k without its high bit
//      omega    groups, high bit first, each of which is the length of the next group less one
//               and the last of which is k; then a 0
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

// Appends, for each integer that is not 0, the distance from the previous such integer (for the
// first, from index -1), the sign bit (1 if negative) and the magnitude. If the last integer of the
// row is 0, the distance from the last such integer to the index after the row follows.
void put_sparse(BitWriter& bits, std::span<const double> integers, EliasCode code);

}  // namespace apscope::detail
