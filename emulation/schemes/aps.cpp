// aps: Auto Precision Scaling. Each tensor, at each step, is scaled by the power of two that brings
// H amax into (2^(E-1), 2^E], E = floor(log2 largest):
//
//      k = ceil(log2(H amax))     agreed by MAX over the workers; 8 bits of side information
//      s = E - k                  c = round(2^s g), summed in the format, divided by 2^s
//
// H = W leaves room for the sum: no partial sum overflows. k is clamped to that of amax = 2^-126,
// the smallest normal fp32 number, so that 255 values and a code for the zero tensor suffice.
#include "emulation/scheme.h"
#include "emulation/schemes/float_scheme.h"
#include "emulation/schemes/headroom.h"

namespace apscope {

SchemeDefinition aps_definition() {
    return {"aps",
            "APS",
            "a power of two per tensor and step, from the agreed amax with headroom for the sum",
            "Han, Demmel, You, Auto-Precision Scaling for Distributed Deep Learning (arXiv:1911.08907); its code, CPD",
            "gradients",
            true,
            float_keys({{"headroom", "workers", "room left for the sum: workers, sqrt_workers or one"}}),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                scheme.select = select_by_amax(*arguments.format, arguments.choice("headroom", headroom_choices));
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 8; };
            }};
}

}  // namespace apscope
