#include "analysis/replay/float_blocks.h"

#include <algorithm>
#include <utility>

#include "emulation/cast/row_moments.h"

namespace apscope::detail {

namespace {

bool any(std::span<const RowSums> rows, const auto& is) { return std::ranges::any_of(rows, is); }

// Moments of scaled numbers in the gradients' own units.
struct DecodeMoments {
    static APSCOPE_INLINE void run(double* bias, double* variance, double scale,
                                   std::size_t count) {
        divide_by(scale, [&](auto quotient) __attribute__((always_inline)) {
#pragma GCC ivdep  // rows of their own
            for (std::size_t i = 0; i < count; ++i) {
                bias[i] = quotient(bias[i]);
                variance[i] = quotient(quotient(variance[i]));
            }
        });
    }
};

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
      scale_{exchange_.wire(), decision.scale, 1.0, encoder.grid.format.smallest_normal(),
             encoder.grid.format.largest()},
      key_(item.key(0)) {
    const Divisors& by = exchange_.divisors();
    scale_.units = 1.0 / by.before;
    scale_.smallest_normal *= by.before;
    hops_draw_ = any(account_.reduced(), [](const RowSums& r) { return r.hops_draw; });
    account_.splits = true;
    account_.ulps = scale_;
    account_.ulps->units = item.divisor() / by.before;
    account_.wire().float_grid = true;
    account_.wire().moments = !draws_    ? Moments::deterministic
                              : by.any() ? Moments::none
                                         : Moments::closed_form;
    finds_moments_ = (draws_ || hops_draw_) && !by.any();
    if (account_.wire().moments == Moments::none && item.draws > 1) account_.sample_sent();
    if (!exchange_.is_narrow()) return;
    const FloatFormat& grid = *exchange_.grid();
    if (!draws_ && !hops_draw_ && !exchange_.is_wide())
        nearest_ = make_nearest_cast(grid, encoder.grid.projection);
    smallest_normal_ = static_cast<float>(grid.smallest_normal());
    largest_ = static_cast<float>(grid.largest());
}

bool FloatBlocks::round_and_count(std::size_t w, std::span<const float> x, ErrorStatistics& sent) {
    if (!nearest_) return false;
    Buffer<float>& narrow = buffers_.exchange.narrow[w];
    narrow.resize(x.size());
    return add_nearest(sent, x.data(), narrow.data(), x.size(), *nearest_, StoreMode::stored);
}

void FloatBlocks::decode(std::span<double> bias, std::span<double> variance) const {
    simd::run<DecodeMoments>(bias.data(), variance.data(), decision_.scale, bias.size());
}

bool FloatBlocks::find_moments(std::size_t w, std::span<const float> x) {
    Buffer<double>&bias = buffers_.bias, &variance = buffers_.variance;
    bias.assign(x.size(), 0.0);
    variance.assign(x.size(), 0.0);
    if (!draws_) {
        const FloatBuffers& sent = buffers_.exchange;
        for (std::size_t i = 0; i < x.size(); ++i)
            bias[i] = (exchange_.is_narrow() ? sent.narrow[w][i] : sent.decoded[w][i]) - x[i];
        return true;
    }
    const bool defined =
        add_moments(x.data(), x.size(), decision_.scale, scale_.cast, bias.data(), variance.data());
    decode(bias, variance);
    return defined;
}

template <class Real, class Saturated>
void FloatBlocks::add_sent(std::size_t w, ErrorStatistics& sent, const Real* x, const Real* y,
                           const Saturated& saturated) {
    std::span<const double> bias, variance;
    if (finds_moments_) {
        bias = buffers_.bias;
        variance = buffers_.variance;
    }
    account_.add_sent(w, sent, x, y, sent.saturated == 0 ? nullptr : &saturated, bias, variance);
}

void FloatBlocks::send(std::size_t w, ItemAccount& account) {
    const std::span<const float> x = item_.block(w, first_, account.count());
    const FloatBuffers& exchanged = buffers_.exchange;
    ErrorStatistics sent;
    const bool counted = round_and_count(w, x, sent);
    std::span<const double> bias, variance;  // of the wire's own draws
    if (!counted) {
        exchange_.encode(w, x, first_, key_);
        if (finds_moments_) sent.moments_defined = find_moments(w, x);
        if (finds_moments_ && draws_) {
            bias = buffers_.bias;
            variance = buffers_.variance;
        }
    }
    if (exchange_.is_narrow()) {
        const float* y = exchanged.narrow[w].data();
        if (!counted) {
            sent.add_block<float>(x, exchanged.narrow[w], &scale_, bias, variance);
            sent.count_limits(x, exchanged.narrow[w], smallest_normal_, largest_);
        }
        add_sent(w, sent, x.data(), y, BeyondLargest<float>{x.data(), y, 1.0, double{largest_}});
        return;
    }
    buffers_.x.assign(x.begin(), x.end());
    sent.add_block<double>(buffers_.x, exchanged.decoded[w], &scale_, bias, variance);
    sent.count_limits(buffers_.x, exchange_.rounded(w), scale_);
    const double *wide = buffers_.x.data(), *y = exchanged.decoded[w].data();
    add_sent(
        w, sent, wide, y,
        BeyondLargest<double>{wide, exchange_.rounded(w).data(), scale_.scale, scale_.largest});
}

void FloatBlocks::reduce(std::size_t r, std::span<double> y, HopMoments* hops) {
    exchange_.reduce(topologies_[r], account_.reduced()[r].exact, first_, item_.elements(), key_,
                     item_.divisor(), y, hops);
    if (hops == nullptr) return;
    decode(hops->bias, hops->variance);
}

void FloatBlocks::read_sent(std::size_t w, std::span<double> y) {
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = exchange_.is_narrow() ? buffers_.exchange.narrow[w][i]
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
    return account_.rows({scheme.transport, payload_bits(encoder_.grid, item_.elements()),
                          decision.side_bits.value_or(scheme.float_encoder.value().side_bits),
                          decision.exponent, decision.skipped});
}

}  // namespace apscope::detail
