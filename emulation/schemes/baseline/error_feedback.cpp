// error_feedback(SPEC): the error of the inner scheme at a step is added to the values of the next
// step.
//
//      p = g + decay e      C(p) is sent
//      e = p - C(p)         one e per worker, fp64; 0 where p - C(p) is not finite
//
// A skipped step does not change e. With decay = 1, and without overflow, the sum of all sent
// values is the sum of all gradients minus the last e.
#include <stdexcept>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/errors.h"

namespace apscope::detail {

namespace {

void add_errors(std::span<const double> errors, double decay, std::span<double> x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += decay * errors[i];
}

void keep_errors(const Exchange& e, std::size_t worker, std::span<double> errors) {
    if (e.skipped) return;
    const Row &intended = e.intended[worker], &sent = e.sent[worker].values;
    for (std::size_t i = 0; i < errors.size(); ++i) {
        const double left = intended[i] - sent[i];
        errors[i] = left - left == 0.0 ? left : 0.0;  // overflows are not compensated
    }
}

SchemeParts with_errors(const SchemeParts& inner, double decay) {
    SchemeParts scheme = inner;
    SchemeMemory& memory = scheme.memory;
    memory.keeps = memory.feeds_errors_back = true;
    memory.chooses_from_updates = inner.choice.selects() && inner.memory.updates();
    memory.begin = [inner = inner.memory.begin](State& state, std::size_t workers,
                                                std::size_t size) {
        if (inner) inner(state, workers, size);
        Rows& errors = state.of<Errors>().rows;
        errors.resize(workers);
        for (Row& row : errors) {
            if (row.empty()) row.resize(size, 0.0);
        }
    };
    memory.compensate = [inner = inner.memory.compensate,
                         decay](const State& state, const Place& place, std::span<double> x,
                                std::size_t worker) {
        if (inner) inner(state, place, x, worker);
        // A caller's function inside may have removed rows, and those without elements are not
        // named to it.
        const Rows& errors = state.of<Errors>().rows;
        if (worker < errors.size()) add_errors(piece_of(errors[worker], place, x.size()), decay, x);
        else check_length(0, place.size);
    };
    memory.update = [inner = inner.memory.update](const TrainingStep& step, State& state,
                                                  const Place& place, const Exchange& e) {
        if (inner) inner(step, state, place, e);
        Rows& errors = state.of<Errors>().rows;
        for (std::size_t w = 0; w < errors.size(); ++w)
            keep_errors(e, w, piece_of(errors[w], place, e.intended[w].size()));
    };
    return scheme;
}

}  // namespace

SchemeDefinition error_feedback_definition() {
    return {.class_name = "ErrorFeedback",
            .summary = "the error of a scheme at a step is added to the values of the next step",
            .source =
                "Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019 (arXiv:1901.09847)",
            .needs = "gradients of consecutive steps",
            .body = SchemeDefinition::Body::scheme,
            .keys = {{"decay", "1", "factor on the error that is carried over, 0 to 1"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                const SchemeParts& inner = arguments.inner->inner_parts();
                if (inner.memory.feeds_errors_back) {
                    throw std::invalid_argument("scheme '" + arguments.inner->spec +
                                                "' has its own error feedback; use it without "
                                                "error_feedback, or put another scheme in it");
                }
                return with_errors(inner, arguments.number("decay", 0.0, 1.0));
            }};
}

}  // namespace apscope::detail
