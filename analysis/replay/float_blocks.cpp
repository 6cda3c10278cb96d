#include "analysis/replay/float_blocks.h"

#include <algorithm>
#include <utility>

namespace apscope::detail {

namespace {

bool any(std::span<const RowSums> rows, const auto& is) { return std::ranges::any_of(rows, is); }

std::vector<Topology> topologies_of(const Reduction& reduction, const ItemContext& item) {
    std::vector<Topology> all;
    if (!item.reduces) return all;
    all.push_back({});
    if (reduction.gathers()) all.push_back({Topology::Kind::gather, 0, false});
    else all.insert(all.end(), item.topologies.begin(), item.topologies.end());
    return all;
}

std::vector<RowSums> reduced_rows(const FloatEncoder& encoder, std::span<const Topology> topologies,
                                  const ItemContext& item) {
    const Reduction& reduction = encoder.reduction;
    const Divisors by = encoder.grid.division.of(item.workers());
    const bool draws = is_stochastic(encoder.grid);
    std::vector<RowSums> rows;
    for (const Topology& topology : topologies) {
        RowSums& row = rows.emplace_back();
        row.topology = topology.name();
        row.exact = topology.kind == Topology::Kind::exact || reduction.exact;
        row.float_grid = true;
        // Gathering narrows the decoded values to fp32 even where there is nothing to add.
        const bool has_hops = topology.kind == Topology::Kind::gather ||
                              (!row.exact && (item.workers() > 1 || by.after != 1.0));
        const Additions additions = reduction.additions(topology);
        row.hops_draw = has_hops && additions.draws();
        // A division, or a sum in a wider format, rounds what was drawn.
        const bool rounds_on =
            by.any() || (has_hops && additions.wide && (draws || additions.ends_wide));
        const bool known = !rounds_on || !(draws || row.hops_draw);
        row.adds_moments = known && (row.hops_draw || (draws && !has_hops));
        row.moments = !known             ? Moments::none
                      : row.adds_moments ? Moments::closed_form
                      : draws            ? Moments::none
                                         : Moments::deterministic;
        if (row.moments == Moments::none && item.draws > 1)
            row.samples = DrawSamples(static_cast<std::size_t>(item.draws));
    }
    return rows;
}

}  // namespace

FloatBlocks::FloatBlocks(const FloatEncoder& encoder, const Decision& decision,
                         const ItemContext& item, BlockBuffers& buffers)
    : encoder_(encoder), decision_(decision), item_(item),
      topologies_(topologies_of(encoder.reduction, item)), draws_(is_stochastic(encoder.grid)),
      buffers_(buffers), account_(item, buffers.account, reduced_rows(encoder, topologies_, item)),
      exchange_(encoder, decision, item.workers(),
                any(account_.reduced(), [](const RowSums& r) { return !r.exact; }),
                buffers.exchange),
      hops_draw_(any(account_.reduced(), [](const RowSums& r) { return r.hops_draw; })),
      sender_(encoder.grid, exchange_.wire(), hops_draw_, exchange_.is_wide()), key_(item.key(0)) {
    account_.splits = true;
    account_.ulps = sender_.scale();
    account_.ulps->units = item.divisor() / exchange_.wire().divisors().before;
    account_.wire().float_grid = true;
    account_.wire().moments = sender_.moments();
    if (account_.wire().moments == Moments::none && item.draws > 1) account_.sample_sent();
}

void FloatBlocks::send(std::size_t w, ItemAccount& account) {
    sender_.send(exchange_.wire(), w, item_.block(w, first_, account.count()), first_, key_,
                 buffers_, account);
}

void FloatBlocks::reduce(std::size_t r, std::span<double> y, HopMoments* hops) {
    exchange_.reduce(topologies_[r], account_.reduced()[r].exact, first_, item_.elements(), key_,
                     item_.divisor(), y, hops);
    if (hops == nullptr) return;
    decode_moments(hops->bias, hops->variance, decision_.scale);
}

void FloatBlocks::read_sent(std::size_t w, std::span<double> y) {
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = exchange_.wire().is_narrow() ? buffers_.exchange.narrow[w][i]
                                            : buffers_.exchange.decoded[w][i];
}

bool FloatBlocks::samples() const {
    return account_.samples_sent() ||
           any(account_.reduced(), [](const RowSums& r) { return !r.samples.empty(); });
}

void FloatBlocks::add(std::size_t first, std::span<const double> reference) {
    if (decision_.skipped) return account_.skip(first, reference);
    first_ = first;
    key_ = item_.key(0);
    account_.add(*this, first, reference);
    if (!samples()) return;
    for (std::size_t d = 0; d < static_cast<std::size_t>(item_.draws); ++d) {
        key_ = item_.key(d);
        for (std::size_t w = 0; w < item_.gradients.size(); ++w)
            exchange_.encode(w, item_.block(w, first, reference.size()), first, key_);
        account_.take_draw(*this, d, reference.size());
    }
    account_.add_draws(first);
}

std::vector<ResultRow> FloatBlocks::rows(const SchemeParts& scheme,
                                         const Decision& decision) const {
    const std::uint64_t scale = decision.side_bits.value_or(scheme.float_encoder.value().side_bits);
    return account_.rows({scheme.transport, payload_bits(encoder_.grid, item_.elements()), scale,
                          scale, decision.exponent, decision.skipped});
}

}  // namespace apscope::detail
