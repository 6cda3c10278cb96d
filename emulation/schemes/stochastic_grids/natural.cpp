// natural: natural compression, stochastic rounding to the two neighbouring powers of two.
//
//      |x|  = 2^k (1 + f)
//      sent = sign(x) 2^(k+1) with probability f, else sign(x) 2^k
//
// An element takes 9 bits: a sign and 8 exponent bits, with a code for 0. The original has no
// scale; here a power of two brings the largest magnitude of all workers to at most 2^127, so that
// no code overflows and the range extends 253 binades below 2^127. The scale does not change
// relative errors. A value above 2^127 may still decode to 2^128, which exceeds the range of fp32.
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition natural_definition() {
    return {
        .class_name = "Natural",
        .summary =
            "natural compression: stochastic rounding to powers of two; gathered and added in fp32",
        .source =
            "Horvath et al., Natural Compression for Distributed Deep Learning (arXiv:1905.10988)",
        .needs = "gradients",
        .keys = {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"},
                 correlated_key},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            return gathered_scheme(arguments, make_format(8, 0), Overflow::ieee);
        }};
}

}  // namespace apscope::detail
