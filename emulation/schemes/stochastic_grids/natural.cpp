// natural: natural compression, stochastic rounding to the two neighbouring powers of two.
//
//      |x|  = 2^k (1 + f)
//      sent = sign(x) 2^(k+1) with probability f, else sign(x) 2^k
//
// A sign and 8 exponent bits, including a code for 0: 9 bits per element. The original has no
// scale; here a power of two brings the largest magnitude of all workers to at most 2^127, so that
// no code overflows and 253 binades below it are left. Relative errors are the same. A value above
// 2^127 may still decode to 2^128, which exceeds fp32.
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
        .keys = {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            return gathered_scheme(arguments, make_format(8, 0), Overflow::ieee);
        }};
}

}  // namespace apscope::detail
