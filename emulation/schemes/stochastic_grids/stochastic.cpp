// stochastic: stochastic rounding to a float grid. The amax is agreed by MAX, the scale is APS's
// with headroom one (nothing is summed in the format), the codes are gathered and added in fp32.
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition stochastic_definition() {
    return {"stochastic",
            "Stochastic",
            "stochastic rounding to a float grid at the agreed amax; gathered and added in fp32",
            "Gupta et al., Deep Learning with Limited Numerical Precision, ICML 2015, on a float grid",
            "gradients",
            true,
            {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"},
             {"overflow", "ieee", "what overflow gives: ieee, saturate, propagate, infinity or nan"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                FloatGrid grid{*arguments.format, {RoundingMode::stochastic, parse_overflow(arguments.text("overflow")),
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
