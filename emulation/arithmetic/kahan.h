// Kahan's sum with every operation rounded, for single numbers, rows of numbers and registers:
//
//      y = x - e          the term, minus the error of the sum so far
//      t = s + y          the next sum
//      e = (t - s) - y    its error
#pragma once

#include "core/host_device.h"

namespace apscope::detail {

// add(out, a, sign, b, k) sets out = round(a + sign b), the k-th of the four roundings, counted
// from 0; `out` may be `a`. `x` is the term, and `y` is scratch. The next sum is t, which the
// caller stores in place of s.
template <class Term, class Sum, class Place, class Add>
APSCOPE_HD void kahan_add(const Term& x, const Sum& s, Place& e, Place& y, Place& t,
                          const Add& add) {
    add(y, x, -1, e, 0);
    add(t, s, 1, y, 1);
    add(e, t, -1, s, 2);
    add(e, e, -1, y, 3);
}

}  // namespace apscope::detail
