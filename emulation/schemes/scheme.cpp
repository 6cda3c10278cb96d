#include "emulation/schemes/scheme.h"

#include <stdexcept>
#include <string>

namespace apscope::detail {

Parameters SchemeChoice::parameters(const Selection& selection, const Lookahead* ahead) const {
    if (!select)
        return choose ? choose_for(choose, selection, {.sums = needs_sums}, ahead) : Parameters();
    Parameters theta = select(selection);
    // A caller's function may give any number of scales.
    const std::size_t elements = selection.rows.empty() ? 0 : selection.rows[0].size;
    if (!theta.scales.empty() && elements > 0 &&
        (theta.lead + elements - 1) / theta.unit >= theta.scales.size())
        throw std::invalid_argument("select gave " + std::to_string(theta.scales.size()) +
                                    " scales for " + std::to_string(elements) + " elements");
    return theta;
}

void SchemeEncoding::make(const RowPiece& piece, Message& m) const {
    if (correlated && !piece.step.correlated) {
        TrainingStep step = piece.step;
        step.correlated = true;
        return make({step, piece.theta, piece.measured, piece.place, piece.x, piece.worker}, m);
    }
    encode ? encode(piece, m) : float_encoder.value().encode(piece, m);
}

void SchemeEncoding::add(const SentPieces& sent, Row& sum) const {
    if (reduce) reduce(sent, sum);
    else if (crosses_topologies()) float_encoder->reduce(sent, sum);
    else gathered_sum(sent.messages, sum);
}

bool SchemeParts::draws() const {
    const std::optional<FloatEncoder>& floats = encoding.float_encoder;
    return encoding.draws || choice.draw ||
           (floats && (is_stochastic(floats->grid) || floats->reduction.draws()));
}

bool SchemeParts::sums_draw() const {
    return encoding.sum_draws ||
           (encoding.crosses_topologies() && encoding.float_encoder->reduction.draws());
}

bool SchemeParts::streams() const {
    const bool chooses = choice.choose && !choice.select && !choice.draw && !choice.measure;
    const bool is_float = encoding.float_encoder && !encoding.encode && !encoding.reduces();
    return chooses && is_float && only_encodes() && !memory.compares_intended;
}

void SchemeParts::add_to(NeededStatistics& needed) const {
    needed.sums = needed.sums || choice.needs_sums;
    needed.largest_sum = needed.largest_sum || choice.looks_ahead;
}

const SchemeParts& Scheme::own_parts() const {
    if (!is_policy()) return parts;
    throw std::invalid_argument("scheme '" + spec +
                                "' is a policy; put the combinator inside its branches instead");
}

const SchemeParts& Scheme::inner_parts() const {
    if (own_parts().bucket != 0)
        throw std::invalid_argument(
            "scheme '" + spec +
            "' has blocks that cross tensors, but a scheme around it sees one tensor of one step; "
            "leave bucket out");
    if (!parts.choice.joins_tensors) return parts;
    throw std::invalid_argument(
        "scheme '" + spec +
        "' has one scale for several tensors, but a scheme around it sees one tensor of one step; "
        "use a scheme that scales each tensor separately, or loss_scaling with a number as scale");
}

}  // namespace apscope::detail
