#include "analysis/replay/float_blocks.h"

#include <algorithm>
#include <utility>

namespace apscope::detail {

namespace {

bool any(std::span<const RowFacts> rows, const auto& is) { return std::ranges::any_of(rows, is); }

std::vector<Topology> topologies_of(const Reduction& reduction, const ItemContext& item) {
    std::vector<Topology> all;
    if (!item.reduces) return all;
    all.push_back({});
    if (reduction.gathers()) all.push_back({Topology::Kind::gather, 0, false});
    else all.insert(all.end(), item.topologies.begin(), item.topologies.end());
    return all;
}

std::vector<RowFacts> reduced_rows(const FloatEncoder& encoder,
                                   std::span<const Topology> topologies, const ItemContext& item) {
    const Reduction& reduction = encoder.reduction;
    const Divisors by = encoder.grid.division.of(item.workers());
    const bool draws = is_stochastic(encoder.grid);
    std::vector<RowFacts> rows;
    for (const Topology& topology : topologies) {
        RowFacts& row = rows.emplace_back();
        row.topology = topology.name();
        row.exact = topology.kind == Topology::Kind::exact || reduction.exact;
        row.float_grid = true;
        // `gather` rounds the decoded values to fp32 even with one worker.
        const bool has_hops = topology.kind == Topology::Kind::gather ||
                              (!row.exact && (item.workers() > 1 || by.after != 1.0));
        const Additions additions = reduction.additions(topology);
        row.hops_draw = has_hops && additions.draws();
        // A division in the format, or the rounding of a wider sum, rounds randomly rounded values
        // once more, so moments have no closed form.
        const bool rounds_on =
            by.any() || (has_hops && additions.wide && (draws || additions.ends_wide));
        const bool known = !rounds_on || !(draws || row.hops_draw);
        row.adds_moments = known && (row.hops_draw || (draws && !has_hops));
        row.moments = !known             ? Moments::none
                      : row.adds_moments ? Moments::closed_form
                      : draws            ? Moments::none
                                         : Moments::deterministic;
        row.sampled = row.moments == Moments::none && item.draws > 1;
    }
    return rows;
}

SourceFacts facts_of(const FloatEncoder& encoder, std::span<const Topology> topologies,
                     const ItemContext& item, bool skipped) {
    SourceFacts facts;
    facts.wire.float_grid = true;
    facts.reduced = reduced_rows(encoder, topologies, item);
    facts.skipped = skipped;
    facts.splits = true;
    return facts;
}

}  // namespace

FloatBlocks::FloatBlocks(const FloatEncoder& encoder, const Decision& decision,
                         const ItemContext& item, BlockBuffers& buffers)
    : BlockSource(
          facts_of(encoder, topologies_of(encoder.reduction, item), item, decision.skipped)),
      encoder_(encoder), decision_(decision), item_(item),
      topologies_(topologies_of(encoder.reduction, item)), draws_(is_stochastic(encoder.grid)),
      buffers_(buffers),
      exchange_(encoder, decision, item.workers(),
                any(facts_.reduced, [](const RowFacts& r) { return !r.exact; }), buffers.exchange),
      hops_draw_(any(facts_.reduced, [](const RowFacts& r) { return r.hops_draw; })),
      sender_(encoder.grid, exchange_.wire(), hops_draw_, exchange_.is_wide()),
      first_key_(item.key(0)), key_(first_key_) {
    facts_.ulps = sender_.scale();
    facts_.ulps->units = item.divisor() / exchange_.wire().divisors().before;
    facts_.wire.moments = sender_.moments();
    facts_.wire.sampled = facts_.wire.moments == Moments::none && item.draws > 1;
}

SentBlock FloatBlocks::send(std::size_t w, std::size_t first, std::size_t count) {
    key_ = first_key_;
    return sender_.send(exchange_.wire(), w, item_.block(w, first, count), first, key_, buffers_);
}

void FloatBlocks::draw(std::size_t d, std::size_t first, std::size_t count) {
    key_ = item_.key(d);
    for (std::size_t w = 0; w < item_.gradients.size(); ++w)
        exchange_.encode(w, item_.block(w, first, count), first, key_);
}

void FloatBlocks::reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments* hops) {
    exchange_.reduce(topologies_[r], facts_.reduced[r].exact, first, item_.elements(), key_,
                     item_.divisor(), y, hops);
    if (hops == nullptr) return;
    decode_moments(hops->bias, hops->variance, decision_.scale);
}

void FloatBlocks::read_sent(std::size_t w, std::size_t, std::span<double> y) {
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = exchange_.wire().is_narrow() ? buffers_.exchange.narrow[w][i]
                                            : buffers_.exchange.decoded[w][i];
}

std::optional<RowTask> FloatBlocks::task() {
    if (exchange_.wire().divisors().any() || !std::ranges::all_of(topologies_, &Topology::is_plain))
        return std::nullopt;
    RowTask task;
    task.wires = {wire_task(encoder_.grid, exchange_.wire())};
    if (const auto& sums = exchange_.sums(); sums && (sums->in_hardware || sums->step))
        task.step = sums->step.value_or(StepCast<float>{});
    task.accumulator = exchange_.accumulator();
    task.wire_draws = draws_;
    task.wants_moments = draws_ || hops_draw_;
    for (std::size_t r = 0; r < topologies_.size(); ++r) {
        const RowFacts& row = facts_.reduced[r];
        task.reduced.push_back(
            {topologies_[r], row.exact, row.adds_moments, row.moments == Moments::none});
    }
    const int draws =
        any(facts_.reduced, [](const RowFacts& r) { return r.sampled; }) ? item_.draws : 1;
    for (int d = 0; d < draws; ++d) task.keys.push_back(item_.key(static_cast<std::size_t>(d)));
    return task;
}

SentItem FloatBlocks::sent(const SchemeParts& scheme, const Decision& decision) const {
    const std::uint64_t scale =
        decision.side_bits.value_or(scheme.encoding.float_encoder.value().side_bits);
    return {scheme.transport,
            payload_bits(encoder_.grid, item_.elements()),
            scale,
            scale,
            decision.exponent,
            decision.skipped};
}

}  // namespace apscope::detail
