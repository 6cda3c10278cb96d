// residual(SPEC): what the inner scheme leaves over is encoded again, `points` times in all
// (points.h). Three points of bf16 at scale 1 are fp32.
#include <stdexcept>

#include "emulation/schemes/as_tensor.h"
#include "emulation/schemes/one_bit/one_bit.h"
#include "emulation/schemes/one_bit/points.h"

namespace apscope::detail {

SchemeDefinition residual_definition() {
    return {"residual",
            "Residual",
            "a sum of several encodings, each of what the ones before left over",
            "Liu et al., Post-training Quantization with Multiple Points, AAAI 2021 (arXiv:2002.09049), on gradients",
            "gradients",
            false,
            {{"points", "2", "encodings a tensor, at most"}, {"nmse", "0", "stop at this normalised squared error; 0: never"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const Scheme& given = *arguments.inner;
                TensorScheme t = as_tensor_scheme(given);
                if (t.keeps_state || t.compares_asked || t.compensate || t.update || (t.reduce && !t.crosses_topologies)) {
                    throw std::invalid_argument("scheme '" + given.spec + "' remembers something or reduces in a way of its own; "
                                                "residual needs one that is gathered or rounds to a float format, such as aps:e4m3 or qsgd");
                }
                scheme.note = arguments.inner->note;
                scheme.tensor = std::make_shared<const TensorScheme>(
                    in_points(std::move(t), arguments.integer("points", 1, 64), fraction(arguments, "nmse")));
            },
            SchemeDefinition::Body::scheme};
}

}  // namespace apscope::detail
