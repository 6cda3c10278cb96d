#include "analysis/replay/phase_blocks.h"

namespace apscope::detail {

namespace {

SourceFacts facts_of(const SchemeParts& scheme) {
    SourceFacts facts;
    facts.splits = true;
    facts.wire.float_grid = true;
    facts.reduced.resize(2);
    facts.reduced[0].topology = "exact";
    facts.reduced[0].exact = true;
    facts.reduced[1].topology = scheme.topology;
    for (RowFacts& row : facts.reduced)
        row.moments = scheme.draws() ? Moments::none : Moments::deterministic;
    return facts;
}

}  // namespace

bool supports_phases(const SchemeParts& scheme, const ItemContext& item) {
    return scheme.encoding.float_phases && item.reduces && (item.draws == 1 || !scheme.draws());
}

PhaseBlocks::PhaseBlocks(const SchemeParts& scheme, const TrainingStep& step,
                         const ItemContext& item, std::span<const AgreedStatistics> statistics,
                         BlockBuffers& buffers)
    : BlockSource(facts_of(scheme)), scheme_(scheme), phases_(*scheme.encoding.float_phases),
      item_(item), key_(step.key), buffers_(buffers),
      exchange_(phases_, step, item_.gradients, statistics, buffers.exchange, buffers.ahead) {
    for (std::size_t i = 0; i < exchange_.wires(); ++i)
        senders_.emplace_back(grid(), exchange_.wire(i), false, false);
    facts_.wire.moments = senders_[0].moments();
}

SentBlock PhaseBlocks::send(std::size_t w, std::size_t first, std::size_t count) {
    const std::size_t i = exchange_.wire_of(w);
    return senders_[i].send(exchange_.wire(i), w, item_.block(w, first, count), first, key_,
                            buffers_);
}

void PhaseBlocks::reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments*) {
    if (r == 0) exchange_.exact_sum(y);
    else exchange_.reduce(first, y);
    simd::run<DivideRow>(y.data(), item_.divisor(), y.size());
}

std::optional<RowTask> PhaseBlocks::task() {
    RowTask task;
    for (std::size_t w = 0; w < item_.gradients.size(); ++w)
        task.wires.push_back(wire_task(grid(), exchange_.wire(exchange_.wire_of(w))));
    task.phases.emplace();
    if (phases_.phase2) {
        task.phases->encoding = [this](float largest, std::uint64_t nonfinite, std::size_t count) {
            AgreedStatistics sum;
            sum.amax = largest;
            sum.nonfinite = nonfinite;
            sum.elements = count;
            return wire_task(exchange_.sum_grid(), exchange_.sum_wire(sum));
        };
    }
    task.wire_draws = facts_.wire.moments == Moments::closed_form;
    task.keys = {key_};
    for (const RowFacts& row : facts_.reduced) task.reduced.push_back({{}, row.exact});
    return task;
}

SentItem PhaseBlocks::sent() const {
    const FloatEncoder& encoder = phases_.phase1->parts.encoding.float_encoder.value();
    return {scheme_.transport,          payload_bits(encoder.grid, item_.elements()),
            encoder.side_bits,          encoder.side_bits,
            exchange_.scale_exponent(), false};
}

}  // namespace apscope::detail
