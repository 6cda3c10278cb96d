// error_feedback(SPEC): what the inner scheme loses at a step is added to what is sent at the next.
//
//      p = g + e       C(p) is sent       e = p - C(p)        one e a worker, fp64
//
// So the sum of all that was sent is the sum of all gradients less the last e.
#include <stdexcept>

#include "emulation/schemes/as_tensor.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/numbers.h"

namespace apscope::detail {

namespace {

std::string error_of(std::size_t worker) { return "error/" + std::to_string(worker); }

void add_error(State& state, Rows& rows, double decay) {
    for (std::size_t w = 0; w < rows.size(); ++w) {
        const Row& error = state.try_emplace(error_of(w), rows[w].size(), 0.0).first->second;
        for (std::size_t i = 0; i < rows[w].size(); ++i) rows[w][i] += decay * error.at(i);
    }
}

void keep_error(State& state, const Exchange& e) {
    for (std::size_t w = 0; w < e.asked.size(); ++w) {
        Row& error = state[error_of(w)];
        error.resize(e.asked[w].size());
        if (e.skipped) continue;
        for (std::size_t i = 0; i < error.size(); ++i) {
            const double left = e.asked[w][i] - e.sent[w].values[i];
            error[i] = left - left == 0.0 ? left : 0.0;  // an overflow is not made up for
        }
    }
}

}  // namespace

SchemeDefinition error_feedback_definition() {
    return {"error_feedback",
            "ErrorFeedback",
            "what a scheme loses at a step is added to what it sends at the next",
            "Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019 (arXiv:1901.09847)",
            "gradients of consecutive steps",
            false,
            {{"decay", "1", "factor on the error that is carried over, 0 to 1"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                if (arguments.inner->keeps_state && !arguments.inner->tensor) {
                    throw std::invalid_argument("scheme '" + arguments.inner->spec + "' decides over all tensors of a step, which "
                                                "error_feedback does not see; use a scheme that scales each tensor by itself");
                }
                TensorScheme t = as_tensor_scheme(*arguments.inner);
                const double decay = number_between(arguments, "decay", 0.0, 1.0);
                t.keeps_state = true;
                t.compensate = [decay, inner = t.compensate](const TensorStep& step, State& state, Rows& rows) {
                    if (inner) inner(step, state, rows);
                    add_error(state, rows, decay);
                };
                t.update = [inner = t.update](const TensorStep& step, State& state, const Exchange& e) {
                    if (inner) inner(step, state, e);
                    keep_error(state, e);
                };
                scheme.note = arguments.inner->note;
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            },
            SchemeDefinition::Body::scheme};
}

}  // namespace apscope::detail
