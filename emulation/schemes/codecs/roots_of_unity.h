// exp(-2 pi i k / n) in fp64, from IEEE operations alone, because C libraries differ in sine and
// cosine. About 90 bits are computed and rounded once; roots that mirror each other differ only in
// signs.
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
    // A root is the product of two roots from tables: of angles in steps of 2 pi / (8 n), up to
    // pi / 4, and of angles in steps of stride_ such steps.
    std::size_t n_, stride_;
    std::vector<Turn> fine_, coarse_;
};

}  // namespace apscope::detail
