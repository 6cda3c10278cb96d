// Finds and refuses arrays of a caller that overlap.
#pragma once

#include <functional>
#include <span>

#include "core/error.h"

namespace apscope {

// True if two arrays share memory.
template <class A, class B>
bool overlap(std::span<A> a, std::span<B> b) {
    const std::less<const void*> before;
    return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

// Refuses an output that overlaps an input without being the same array: its numbers would be
// written before they are read.
template <class Real>
void refuse_part(std::span<const Real> in, std::span<Real> out) {
    if (in.data() != out.data() && overlap(in, out))
        throw error("the output overlaps the input in part; give the input itself, "
                    "or another array");
}

}  // namespace apscope
