#include "analysis/replay/scheme_run.h"

#include <algorithm>
#include <cmath>

#include "core/fixed_shape_sum.h"
#include "emulation/cast/row_moments.h"
#include "emulation/machine/divide.h"

namespace apscope::detail {

SchemeRun::SchemeRun(const FloatScheme& scheme, const Decision& decision,
                     std::span<const Topology> topologies, const ItemContext& item,
                     BlockBuffers& buffers)
    : scheme_(scheme), decision_(decision), item_(item), stochastic_(is_stochastic(scheme.grid)),
      reduced_(reduced_rows(topologies)), buffers_(buffers),
      exchange_(scheme, decision, item.workers,
                std::ranges::any_of(reduced_, [](const Reduced& r) { return !r.exact; }),
                buffers.exchange),
      scale_{exchange_.wire(), decision.scale, 1.0, scheme.grid.format.smallest_normal(),
             scheme.grid.format.largest()},
      wire_(static_cast<std::size_t>(item.workers)) {
    if (!exchange_.is_narrow()) return;
    const FloatFormat& grid = *exchange_.grid();
    nearest_ = make_nearest_cast(grid, scheme.grid.projection);
    smallest_normal_ = static_cast<float>(grid.smallest_normal());
    largest_ = static_cast<float>(grid.largest());
}

std::vector<SchemeRun::Reduced> SchemeRun::reduced_rows(std::span<const Topology> topologies) {
    std::vector<Reduced> rows;
    const Reduction& reduction = scheme_.reduction;
    const auto add = [&](const Topology& topology) {
        Reduced r;
        r.topology = topology;
        r.exact = topology.kind == Topology::Kind::exact || reduction.exact;
        r.sums.topology = topology.name();
        r.sums.float_grid = r.sums.has_split = true;
        // Gathering narrows the decoded values to fp32 even where there is nothing to add.
        const bool has_hops =
            topology.kind == Topology::Kind::gather || (!r.exact && item_.workers > 1);
        const bool hops_draw = has_hops && is_stochastic(reduction.projection.rounding);
        hops_draw_ = hops_draw_ || hops_draw;
        if (!stochastic_ && !hops_draw) r.sums.moments = Moments::deterministic;
        else if (!has_hops || hops_draw) r.sums.moments = Moments::closed_form;
        else r.sampled = true;
        if (r.sampled && item_.draws > 1)
            r.sums.samples = DrawSamples(static_cast<std::size_t>(item_.draws));
        rows.push_back(std::move(r));
    };
    if (!item_.reduces) return rows;
    add({});
    if (reduction.collective == Collective::all_gather) add({Topology::Kind::gather, 0, false});
    else
        for (const Topology& t : topologies)
            if (t.kind != Topology::Kind::exact) add(t);
    return rows;
}

bool SchemeRun::encode_and_add(std::size_t w, std::size_t first, std::size_t count) {
    if (!nearest_) return false;
    Buffer<float>& narrow = buffers_.exchange.narrow[w];
    narrow.resize(count);
    ErrorStatistics sent;
    if (!add_nearest(sent, gradients(w, first, count).data(), narrow.data(), count, *nearest_,
                     StoreMode::stored))
        return false;
    split_sent(sent, w, first);
    return true;
}

void SchemeRun::moments_of(std::size_t w, std::size_t first, std::size_t count) {
    const std::span<const float> in = gradients(w, first, count);
    buffers_.bias.assign(count, 0.0);
    buffers_.variance.assign(count, 0.0);
    if (!stochastic_) {
        const FloatBuffers& sent = buffers_.exchange;
        for (std::size_t i = 0; i < count; ++i)
            buffers_.bias[i] =
                (exchange_.is_narrow() ? sent.narrow[w][i] : sent.decoded[w][i]) - in[i];
        return;
    }
    const bool defined = add_moments(in.data(), count, decision_.scale, scale_.cast,
                                     buffers_.bias.data(), buffers_.variance.data());
    wire_moments_defined_ = wire_moments_defined_ && defined;
    for (std::size_t i = 0; i < count; ++i) {
        buffers_.bias[i] = exchange_.decode(buffers_.bias[i]);
        buffers_.variance[i] = exchange_.decode(exchange_.decode(buffers_.variance[i]));
    }
}

void SchemeRun::add_wire(std::size_t w, std::size_t first, std::size_t count) {
    const std::span<const float> x = gradients(w, first, count);
    const FloatBuffers& exchanged = buffers_.exchange;
    const std::span<const double> none;
    const std::span<const double> bias =
        stochastic_ ? std::span<const double>(buffers_.bias) : none;
    const std::span<const double> variance =
        stochastic_ ? std::span<const double>(buffers_.variance) : none;
    ErrorStatistics sent;
    if (exchange_.is_narrow()) {
        sent.add_block<float>(x, exchanged.narrow[w], &scale_, bias, variance);
        sent.count_limits(x, exchanged.narrow[w], smallest_normal_, largest_);
    } else {
        buffers_.x.assign(x.begin(), x.end());
        sent.add_block<double>(buffers_.x, exchanged.decoded[w], &scale_, bias, variance);
        sent.count_limits(buffers_.x, exchanged.codes[w], scale_);
    }
    split_sent(sent, w, first);
    if (!stochastic_ && !hops_draw_) return;
    for (std::size_t i = 0; i < count; ++i) {
        buffers_.wire_bias[i] += buffers_.bias[i];
        buffers_.wire_variance[i] += buffers_.variance[i];
    }
}

// Adds what a block of worker w gave, and splits its error. buffers_.x is the block in fp64 unless
// the exchange is narrow.
void SchemeRun::split_sent(ErrorStatistics& sent, std::size_t w, std::size_t first) {
    const auto split = [&]<class Real>(const Real* x, const Real* y,
                                       const BeyondLargest<Real>& beyond) {
        buffers_.account.add_sent(sent, x, y, sent.saturated == 0 ? nullptr : &beyond);
    };
    const FloatBuffers& exchanged = buffers_.exchange;
    if (exchange_.is_narrow()) {
        const float *x = item_.gradients[w].data() + first, *y = exchanged.narrow[w].data();
        split(x, y, BeyondLargest<float>{x, y, 1.0, double{largest_}});
    } else {
        const double *x = buffers_.x.data(), *codes = exchanged.codes[w].data();
        split(x, static_cast<const double*>(exchanged.decoded[w].data()),
              BeyondLargest<double>{x, codes, scale_.scale, scale_.largest});
    }
    wire_[w].merge(sent);
}

void SchemeRun::add_reduced(Reduced& r, std::size_t first, std::span<const double> reference) {
    const std::size_t count = reference.size();
    const bool closed_form = r.sums.moments == Moments::closed_form;
    const bool is_first = &r == reduced_.data();  // the exact sum
    Buffer<double>& y = is_first ? buffers_.exact : buffers_.y;
    y.resize(count);
    if (closed_form) {
        buffers_.hop_bias.assign(count, 0.0);
        buffers_.hop_variance.assign(count, 0.0);
    }
    HopMoments hops{buffers_.hop_bias, buffers_.hop_variance, true};
    const double divisor = this->divisor();
    exchange_.reduce(r.topology, r.exact, first, item_.elements, key(0), divisor, y,
                     closed_form ? &hops : nullptr);
    ResultMoments moments;
    if (closed_form) {
        for (std::size_t i = 0; i < count; ++i) {
            buffers_.hop_bias[i] = buffers_.wire_bias[i] + exchange_.decode(buffers_.hop_bias[i]);
            buffers_.hop_variance[i] = buffers_.wire_variance[i] +
                                       exchange_.decode(exchange_.decode(buffers_.hop_variance[i]));
        }
        simd::run<DivideRow>(buffers_.hop_bias.data(), divisor, count);
        simd::run<DivideRow>(buffers_.hop_variance.data(), divisor * divisor, count);
        moments = {buffers_.hop_bias, buffers_.hop_variance, hops.defined && wire_moments_defined_};
    }
    FloatScale scale = scale_;
    scale.units = divisor;
    buffers_.account.add_result(r.sums.statistics, reference, y, r.exact, moments, &scale, &known_);
}

// Draws 0..K-1 of every row without a closed form: per draw the error, per element the variance.
void SchemeRun::sample(std::size_t first, std::span<const double> reference) {
    const std::size_t count = reference.size();
    const auto draws = static_cast<std::size_t>(item_.draws);
    std::vector<std::vector<double>> values(reduced_.size());
    for (std::size_t d = 0; d < draws; ++d) {
        for (std::size_t w = 0; w < wire_.size(); ++w)
            exchange_.encode(w, gradients(w, first, count), first, key(d));
        for (std::size_t r = 0; r < reduced_.size(); ++r) {
            if (!reduced_[r].sampled) continue;
            values[r].resize(draws * count);
            exchange_.reduce(reduced_[r].topology, reduced_[r].exact, first, item_.elements, key(d),
                             divisor(), std::span(values[r]).subspan(d * count, count));
        }
    }
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        if (reduced_[r].sampled)
            reduced_[r].sums.samples.add_block(
                reference, [&](std::size_t d) { return values[r].data() + d * count; });
    }
}

// Nothing was sent: what is known is the gradients and their sum, each compared with itself.
void SchemeRun::add_skipped(std::size_t first, std::span<const double> reference) {
    const std::span<const double> none;
    for (std::size_t w = 0; w < wire_.size(); ++w) {
        const std::span<const float> x = gradients(w, first, reference.size());
        wire_[w].add_block<float>(x, x, nullptr, none, none);
    }
    if (!reduced_.empty()) buffers_.account.add_skipped(reduced_[0].sums.statistics, reference);
}

void SchemeRun::block(std::size_t first, std::span<const double> reference) {
    const std::size_t count = reference.size();
    buffers_.account.start(count, divisor(), item_.noise_of(first, count), true);
    if (decision_.skipped) {
        add_skipped(first, reference);
        return;
    }
    const bool moments = stochastic_ || hops_draw_;
    if (moments) {
        buffers_.wire_bias.assign(count, 0.0);
        buffers_.wire_variance.assign(count, 0.0);
    }
    for (std::size_t w = 0; w < wire_.size(); ++w) {
        if (!moments && !exchange_.is_wide() && encode_and_add(w, first, count)) continue;
        exchange_.encode(w, gradients(w, first, count), first, key(0));
        if (moments) moments_of(w, first, count);
        add_wire(w, first, count);
    }
    if (!reduced_.empty()) known_ = reference_sums(reference);
    buffers_.account.end_sent();
    bool samples = false;
    for (Reduced& r : reduced_) {
        add_reduced(r, first, reference);
        samples = samples || !r.sums.samples.empty();
    }
    if (samples) sample(first, reference);
}

std::vector<ResultRow> SchemeRun::rows(const FloatScheme& scheme, const Decision& decision) const {
    std::vector<RowSums> sums(1);
    RowSums& wire = sums.front();
    wire.moments = stochastic_ ? Moments::closed_form : Moments::deterministic;
    wire.float_grid = wire.has_split = true;
    for (const ErrorStatistics& worker : wire_) wire.statistics.merge(worker);
    wire.statistics.moments_defined = wire_moments_defined_;
    for (const Reduced& r : reduced_) {
        sums.push_back(r.sums);
        if (decision_.skipped) sums.back().statistics = reduced_[0].sums.statistics;
    }
    const SentItem sent{scheme.transport,
                        item_.elements,
                        item_.workers,
                        payload_bits(scheme.grid, item_.elements),
                        decision.side_bits.value_or(scheme.side_bits),
                        decision.exponent,
                        decision.skipped,
                        item_.noise};
    return make_rows(sent, sums);
}

}  // namespace apscope::detail
