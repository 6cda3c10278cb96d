#include "emulation/schemes/scheme.h"

#include <stdexcept>

namespace apscope::detail {

Parameters SchemeParts::parameters(const Selection& given, const Lookahead* ahead) const {
    if (select) return select(given);
    return choose ? choose_for(choose, given, {.sums = wants_sums}, ahead) : Parameters();
}

void SchemeParts::make(const RowPiece& piece, Message& m) const {
    encode ? encode(piece, m) : float_encoder.value().encode(piece, m);
}

void SchemeParts::add(const SentPieces& sent, Row& sum) const {
    if (reduce) reduce(sent, sum);
    else if (crosses_topologies()) float_encoder->reduce(sent, sum);
    else gathered_sum(sent.messages, sum);
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
    if (!parts.joins_tensors) return parts;
    throw std::invalid_argument(
        "scheme '" + spec +
        "' has one scale for several tensors, but a scheme around it sees one tensor of one step; "
        "use a scheme that scales each tensor separately, or loss_scaling with a number as scale");
}

}  // namespace apscope::detail
