// natural: natural compression, stochastic rounding to the two neighbouring powers of two.
//
//      |x| = 2^k (1 + f)      sent: sign(x) 2^(k+1) with probability f, else sign(x) 2^k
//
// A sign and 8 exponent bits, 0 among them: 9 bits an element. The original has no scale; here a power of two brings
// the largest magnitude of all workers to at most 2^127, so that no code overflows and 253 binades below it
// are left. Relative errors are the same. A decoded 2^128 (from above 2^127) is still more than fp32 holds.
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition natural_definition() {
    return {"natural",
            "Natural",
            "natural compression: stochastic rounding to powers of two; gathered and added in fp32",
            "Horvath et al., Natural Compression for Distributed Deep Learning (arXiv:1905.10988)",
            "gradients",
            false,
            {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const FloatFormat powers = make_format(8, 0);
                FloatGrid grid{powers, {RoundingMode::stochastic, parse_overflow("ieee"),
                                        static_cast<int>(arguments.integer("random_bits", 1, 64))}};
                validate(grid.projection, grid.format);
                scheme.grid = grid;
                scheme.reduction = {Algebra::gather, false, make_format(8, 23), {}};
                scheme.select = select_by_amax({grid.format, "one"});
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 8; };
                scheme.transport.agreed_bits = all_side_bits;
            }};
}

}  // namespace apscope::detail
