// sign: one bit per element, times a scale per worker.
//
//      C(x) = s sign(x)           sign(0) = +1
//      s    = |x|_1 / d           l1: the least squared error
//             |x|_2 / sqrt(d)     l2: keeps the norm
//             1                   one
//
// d is the number of elements, including zeros and any padding. s is an fp32 number. Messages are
// gathered, decoded and added in fp32. The scheme is biased; error_feedback(sign) is EF-signSGD.
#include <array>

#include "emulation/schemes/codecs/signs.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

SchemeDefinition sign_definition() {
    return {.class_name = "Sign",
            .summary = "signs times a scale per worker; gathered and added in fp32",
            .source = "Bernstein et al., signSGD, ICML 2018 (arXiv:1802.04434); scales: "
                      "Karimireddy et al., ICML 2019 (l1), DeepSpeed (l2)",
            .needs = "gradients",
            .keys = {{"scale", "l1", "l1 (mean magnitude), l2 (root mean square) or one"},
                     {"padding", "none",
                      "none, or workers: zeros up to a multiple of W lcm(W, 8), sent and counted "
                      "in the scale"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                // The texts have the order of enum SignScale.
                constexpr std::array<std::string_view, 3> scales{"l1", "l2", "one"};
                constexpr std::array<std::string_view, 2> paddings{"none", "workers"};
                const auto rule = arguments.one_of<SignScale>("scale", scales);
                const bool pads = arguments.choice("padding", paddings) == "workers";
                SchemeParts scheme;
                scheme.grid = "sign";
                if (!pads) scheme.transport.code_bits = 1;
                const auto length_of = [pads](const TrainingStep& step, std::size_t n) {
                    return pads ? padded_length(n, static_cast<std::size_t>(step.workers)) : n;
                };
                scheme.choice.measure = [rule, length_of](const WorkerRow& r) {
                    return Row{sign_scale(r.x, rule, length_of(r.step, r.x.size))};
                };
                scheme.encoding.encode = [rule, length_of](const RowPiece& p, Message& m) {
                    const bool ends = p.place.first + p.x.size() == p.place.size;
                    encode_signs(m, p.x, p.measured[0],
                                 ends ? length_of(p.step, p.place.size) - p.place.size : 0,
                                 p.packs());
                    m.side_bits = m.tensor_bits = rule == SignScale::one ? 0 : 32;
                };
                return scheme;
            }};
}

}  // namespace apscope::detail
