// error_feedback(SPEC): what the inner scheme loses at a step is added to what is sent at the next.
//
//      p = g + e       C(p) is sent       e = p - C(p)        one e a worker, fp64
//
// So the sum of all that was sent is the sum of all gradients less the last e.
#include <stdexcept>

#include "emulation/schemes/as_tensor.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/errors.h"

namespace apscope::detail {

namespace {

void add_errors(State& state, Rows& rows, double decay) {
    Rows& errors = state.of<Errors>().rows;
    errors.resize(rows.size());
    for (std::size_t w = 0; w < rows.size(); ++w) {
        if (errors[w].empty()) errors[w].resize(rows[w].size());
        for (std::size_t i = 0; i < rows[w].size(); ++i) rows[w][i] += decay * errors[w].at(i);
    }
}

void keep_errors(State& state, const Exchange& e) {
    Rows& errors = state.of<Errors>().rows;
    errors.resize(e.intended.size());
    for (std::size_t w = 0; w < e.intended.size(); ++w) {
        errors[w].resize(e.intended[w].size());
        if (e.skipped) continue;
        for (std::size_t i = 0; i < errors[w].size(); ++i) {
            const double left = e.intended[w][i] - e.sent[w].values[i];
            errors[w][i] = left - left == 0.0 ? left : 0.0;  // an overflow is not made up for
        }
    }
}

}  // namespace

SchemeDefinition error_feedback_definition() {
    return {.class_name = "ErrorFeedback",
            .summary = "what a scheme loses at a step is added to what it sends at the next",
            .source = "Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019 (arXiv:1901.09847)",
            .needs = "gradients of consecutive steps",
            .body = SchemeDefinition::Body::scheme,
            .keys = {{"decay", "1", "factor on the error that is carried over, 0 to 1"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        if (const auto* f = std::get_if<FloatScheme>(&arguments.inner->kind); f != nullptr && f->keeps_state) {
            throw std::invalid_argument("scheme '" + arguments.inner->spec +
                                        "' decides over all tensors of a step, which "
                                        "error_feedback does not see; use a scheme that scales each tensor by itself");
        }
        TensorScheme t = as_tensor_scheme(*arguments.inner);
        t.keeps_state = true;
        t.compensate = [decay = arguments.number("decay", 0.0, 1.0), inner = t.compensate](const TrainingStep& step, State& state, Rows& rows) {
            if (inner) inner(step, state, rows);
            add_errors(state, rows, decay);
        };
        t.update = [inner = t.update](const TrainingStep& step, State& state, const Exchange& e) {
            if (inner) inner(step, state, e);
            keep_errors(state, e);
        };
        return t;
    }};
}

}  // namespace apscope::detail
