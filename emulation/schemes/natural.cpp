// natural: every value goes to one of the two powers of two around it, up with the probability that makes
// the mean right. A sign, eight exponent bits and a zero: 9 bits; no scale, nothing to agree on.
//
// Values above 2^127 go to 2^127, with a bias; below 2^-127 they are drawn between 0 and 2^-127.
#include "core/named_formats.h"
#include "emulation/schemes/float_scheme.h"

namespace apscope {

SchemeDefinition natural_definition() {
    return {"natural",
            "NaturalCompression",
            "stochastic rounding to powers of two; gathered and added in fp32",
            "Horvath et al., Natural Compression for Distributed Deep Learning (arXiv:1905.10988)",
            "gradients",
            false,
            {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const int bits = static_cast<int>(arguments.integer("random_bits", 1, 64));
                const FloatGrid grid{parse_format("e8m0fnuz"), {RoundingMode::stochastic, Overflow::saturate, bits}};
                validate(grid.projection, grid.format);
                scheme.grid = grid;
                scheme.reduction = {Algebra::gather, false, make_format(8, 23), {}};
                scheme.select = [](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), power_of_two(0));
                };
                scheme.side_bits = no_side_bits();
            }};
}

}  // namespace apscope
