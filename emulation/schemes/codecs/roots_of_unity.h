// exp(-2 pi i k / n) in fp64, computed with IEEE operations only, because sine and cosine differ
// between C libraries. About 90 bits are computed and rounded once; roots that are mirror images of
// each other differ only in signs and in the exchange of real and imaginary part.
#pragma once

#include <cstddef>
#include <vector>

#include "emulation/schemes/codecs/pair_sum.h"

namespace apscope::detail {

class RootsOfUnity {
public:
    explicit RootsOfUnity(std::size_t n);

    struct Root {
        double re, im;
    };
    Root operator()(std::size_t k) const;  // k < n

private:
    struct Turn {
        Pair cosine, sine;
    };
    // A root is the product of two roots from tables. In units of 2 pi / (8 n), fine_ has the
    // angles 0, 1, ..., stride_ - 1, and coarse_ has the multiples of stride_ up to pi / 4.
    std::size_t n_, stride_;
    std::vector<Turn> fine_, coarse_;
};

}  // namespace apscope::detail
