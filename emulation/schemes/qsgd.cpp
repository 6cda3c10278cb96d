// qsgd: uniform levels between -norm and norm of a bucket, stochastic rounding, norms local to a
// worker, codes gathered, decoded and added in fp32.
#include "emulation/scheme.h"

namespace apscope {

SchemeDefinition qsgd_definition() {
    return {"qsgd",
            "QSGD",
            "uniform levels over a bucket's l2 norm, stochastic rounding; gathered and added in fp32",
            "Alistarh et al., QSGD, NIPS 2017 (arXiv:1610.02132)",
            "gradients",
            false,
            {{"levels", "7", "levels on each side of zero"},
             {"bucket", "512", "consecutive elements that share a norm"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                UniformGrid grid;
                grid.levels = static_cast<int>(arguments.integer("levels", 1, 1 << 20));
                grid.bucket = static_cast<std::size_t>(arguments.integer("bucket", 1, 1L << 40));
                grid.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                scheme.grid = grid;
                scheme.reduction = {Algebra::gather, false, make_format(8, 23), {}};
                // The bucket's norm is the scale; it is taken where the elements are.
                scheme.select = [](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), Decision{1.0, std::nullopt, false});
                };
                scheme.side_bits = [bucket = grid.bucket](std::size_t n) -> std::uint64_t {
                    return 32 * ((n + bucket - 1) / bucket);
                };
            }};
}

}  // namespace apscope
