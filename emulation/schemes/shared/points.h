// A scheme that sends a tensor as a sum of several encodings. Each one encodes the error that the
// previous ones leave.
//
//      r_1     = x
//      y_j     = C(r_j)
//      r_(j+1) = r_j - y_j
//      sent    = y_1 + ... + y_points
//
// C is a scheme whose parameters are selected anew for each point from the residuals of all
// workers; random words differ from point to point. With nmse > 0, a worker stops before the first
// point j with |r_j|^2 <= nmse |x|^2, at the latest after `max` points, and sends the number of its
// points in 8 side bits. Messages are gathered, decoded and added in fp32. The next point does not
// compensate an overflow.
#pragma once

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The index of a worker's row among the rows for which parameters were chosen. If parameters were
// chosen for one row alone, as in two phases, the index is 0.
inline std::size_t place_of(std::size_t worker, std::size_t rows) {
    return worker < rows ? worker : 0;
}

// `inner` must have no memory, and must either gather its messages or add them in a float format.
// Its selection, encoding and change of basis are used, but not its reduction.
SchemeParts in_points(const SchemeParts& inner, long max, double nmse);

}  // namespace apscope::detail
