// fp8_allreduce: gradients are added in the format of the messages, with one scale for all workers.
//
//      a   = amax over all workers and elements            infinite if any element is not finite
//      S   = fl32(2^floor(log2(largest / a)) / sqrt(W))    the last step's S (at first 1) if a is 0
//                                                          or infinite
//      c_w = saturating round(S g_w)
//      y   = (sum of c_w) / S                              summed in the format, with saturation
//
// The room sqrt(W) suffices for gradients that are independent between workers, and is too little
// for equal gradients. The exponent floor(log2(largest / a)) is computed exactly and is at most
// 127. The key `headroom` can replace sqrt(W) by W or 1.
#include <algorithm>
#include <cmath>

#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

namespace {

struct Memory {
    std::map<std::string, double> scale;  // the key is the tensor's name

    void fields(Fields& f) { f.each("scale", scale); }
};

double room(int workers, Headroom headroom) {
    if (headroom == Headroom::one) return 1.0;
    return headroom == Headroom::workers ? 1.0 / workers
                                         : 1.0 / std::sqrt(static_cast<double>(workers));
}

}  // namespace

SchemeDefinition fp8_allreduce_definition() {
    return {
        .class_name = "FP8AllReduce",
        .summary = "a scale per tensor with room for sqrt(W), saturating, summed in the format",
        .source =
            "Peng et al., FP8-LM (arXiv:2310.18313); its code, MS-AMP (msamp/nn/distributed.py)",
        .needs = "gradients",
        .takes_format = true,
        .keys = float_keys(
            {headroom_key("sqrt_workers", "room left for the sum: sqrt_workers, workers or one")},
            {.overflow = "saturate"}),
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            SchemeParts scheme = float_scheme(arguments, 32);  // 32 bits for the agreed amax
            scheme.memory.keeps = true;
            scheme.choice.choose = choose_each([headroom = headroom_of(arguments),
                                                largest = arguments.format->largest()](
                                                   const TensorStatistics& s, State& state) {
                double& scale = state.of<Memory>().scale.try_emplace(s.tensor, 1.0).first->second;
                if (s.agreed.amax > 0.0 && s.agreed.nonfinite == 0) {
                    const int exponent = std::min(
                        largest_shift_within(s.agreed.amax, 1, Headroom::one, largest), 127);
                    scale = static_cast<float>(std::ldexp(room(s.workers, headroom), exponent));
                }
                return scale_of(scale);
            });
            return scheme;
        }};
}

}  // namespace apscope::detail
