#include "analysis/replay/scheme_run.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics/row_kernels.h"
#include "core/fixed_shape_sum.h"
#include "emulation/cast/row_moments.h"

namespace apscope::detail {

SchemeRun::SchemeRun(const FloatScheme& scheme, const Decision& decision,
                     std::span<const Topology> topologies, const ItemContext& item,
                     BlockBuffers& buffers)
    : scheme_(scheme), decision_(decision), item_(item), stochastic_(is_stochastic(scheme.grid)),
      wire_cast_(scheme.grid.format, scheme.grid.projection),
      accumulator_(make_accumulator(scheme.reduction.accumulate, scheme.reduction.projection)),
      wire_(static_cast<std::size_t>(item.workers)), buffers_(buffers) {
    const FloatFormat& format = scheme.grid.format;
    if (decision.exponent) inverse_ = std::ldexp(1.0, -*decision.exponent);
    scale_ = {wire_cast_.cast(), decision.scale, 1.0, format.smallest_normal(), format.largest()};
    const auto add = [&](const Topology& topology) {
        Reduced r;
        r.topology = topology;
        r.exact = topology.kind == Topology::Kind::exact || scheme.reduction.exact;
        r.sums.topology = topology.name();
        r.sums.float_grid = r.sums.has_split = true;
        // Gathering narrows the decoded values to fp32 even where there is nothing to add.
        const bool has_hops =
            topology.kind == Topology::Kind::gather || (!r.exact && item.workers > 1);
        const bool hops_draw = has_hops && is_stochastic(scheme.reduction.projection.rounding);
        hops_draw_ = hops_draw_ || hops_draw;
        if (!stochastic_ && !hops_draw) r.sums.moments = Moments::deterministic;
        else if (!has_hops || hops_draw) r.sums.moments = Moments::closed_form;
        else r.sampled = true;
        if (r.sampled && item.draws > 1)
            r.sums.samples = DrawSamples(static_cast<std::size_t>(item.draws));
        reduced_.push_back(std::move(r));
    };
    if (item.reduces) {
        add({});
        if (scheme.reduction.collective == Collective::all_gather)
            add({Topology::Kind::gather, 0, false});
        else
            for (const Topology& t : topologies)
                if (t.kind != Topology::Kind::exact) add(t);
    }
    choose_fp32();
}

void SchemeRun::choose_fp32() {
    if (!decision_.exponent) return;
    const auto& [format, projection] = scheme_.grid;
    const std::optional<FloatFormat> grid = scaled_format(format, *decision_.exponent);
    if (!grid || projection.rounding == RoundingMode::stochastic_exact) return;
    sent_ = make_row_job(*grid, projection);
    nearest_ = make_nearest_cast(*grid, projection);
    smallest_normal_ = static_cast<float>(grid->smallest_normal());
    largest_ = static_cast<float>(grid->largest());
    // What is gathered is added as it decodes.
    const bool gathers = scheme_.reduction.collective == Collective::all_gather;
    const int k = gathers ? 0 : *decision_.exponent;
    const FloatFormat& terms = gathers ? *grid : format;
    sums_ = fp32_sums(terms, scheme_.reduction.accumulate, scheme_.reduction.projection, k,
                      item_.workers);
    wide_ = std::any_of(reduced_.begin(), reduced_.end(),
                        [&](const Reduced& r) { return !r.exact && !sums_; });
}

void SchemeRun::encode(std::size_t w, std::size_t first, std::size_t count, std::uint32_t draw,
                       bool moments) {
    const PhiloxKey key = replay_key(item_.seed, item_.tensor, item_.step_number, draw);
    const std::span<const float> in = item_.gradients[w].subspan(first, count);
    if (wide_) {
        buffers_.codes[w].resize(count);
        buffers_.decoded[w].resize(count);
    }
    if (moments) {
        buffers_.bias.assign(count, 0.0);
        buffers_.variance.assign(count, 0.0);
    }
    if (sent_) {
        buffers_.narrow[w].resize(count);
        const RandomStream wire{key, static_cast<std::uint32_t>(w), stage_and_hop(Stage::wire, 0),
                                scale_.cast.random_bits};
        round_row(*sent_, in.data(), buffers_.narrow[w].data(), count, wire, first);
        if (wide_)
            simd::run<WidenAndScale>(buffers_.narrow[w].data(), buffers_.decoded[w].data(),
                                     buffers_.codes[w].data(), decision_.scale, count);
    } else {
        encode_row(in, buffers_.codes[w].data(), decision_.scale, wire_cast_, key,
                   static_cast<std::uint32_t>(w), first);
        for (std::size_t i = 0; i < count; ++i)
            buffers_.decoded[w][i] = decode(buffers_.codes[w][i]);
    }
    if (moments) moments_of(w, first, count);
}

bool SchemeRun::encode_and_add(std::size_t w, std::size_t first, std::size_t count) {
    if (!nearest_) return false;
    buffers_.narrow[w].resize(count);
    ErrorStatistics sent;
    if (!add_nearest(sent, item_.gradients[w].data() + first, buffers_.narrow[w].data(), count,
                     *nearest_, StoreMode::stored))
        return false;
    split_sent(sent, w, first);
    return true;
}

void SchemeRun::moments_of(std::size_t w, std::size_t first, std::size_t count) {
    const std::span<const float> in = item_.gradients[w].subspan(first, count);
    if (!stochastic_) {
        for (std::size_t i = 0; i < count; ++i)
            buffers_.bias[i] = (sent_ ? buffers_.narrow[w][i] : buffers_.decoded[w][i]) - in[i];
        return;
    }
    const bool defined = add_moments(in.data(), count, decision_.scale, scale_.cast,
                                     buffers_.bias.data(), buffers_.variance.data());
    wire_moments_defined_ = wire_moments_defined_ && defined;
    for (std::size_t i = 0; i < count; ++i) {
        buffers_.bias[i] = decode(buffers_.bias[i]);
        buffers_.variance[i] = decode(decode(buffers_.variance[i]));
    }
}

void SchemeRun::add_wire(std::size_t w, std::size_t first, std::size_t count) {
    const std::span<const float> x = item_.gradients[w].subspan(first, count);
    const std::span<const double> none;
    const std::span<const double> bias =
        stochastic_ ? std::span<const double>(buffers_.bias) : none;
    const std::span<const double> variance =
        stochastic_ ? std::span<const double>(buffers_.variance) : none;
    ErrorStatistics sent;
    if (sent_) {
        sent.add_block<float>(x, buffers_.narrow[w], &scale_, bias, variance);
        sent.count_limits(x, buffers_.narrow[w], smallest_normal_, largest_);
    } else {
        buffers_.x.assign(x.begin(), x.end());
        sent.add_block<double>(buffers_.x, buffers_.decoded[w], &scale_, bias, variance);
        sent.count_limits(buffers_.x, buffers_.codes[w], scale_);
    }
    split_sent(sent, w, first);
    if (!stochastic_ && !hops_draw_) return;
    for (std::size_t i = 0; i < count; ++i) {
        buffers_.wire_bias[i] += buffers_.bias[i];
        buffers_.wire_variance[i] += buffers_.variance[i];
    }
}

// Adds what a block of worker w gave, and splits its error. buffers_.x is the block in fp64 unless
// sent_.
void SchemeRun::split_sent(ErrorStatistics& sent, std::size_t w, std::size_t first) {
    const auto split = [&]<class Real>(const Real* x, const Real* y,
                                       const BeyondLargest<Real>& beyond) {
        buffers_.account.add_sent(sent, x, y, sent.saturated == 0 ? nullptr : &beyond);
    };
    if (sent_) {
        const float *x = item_.gradients[w].data() + first, *y = buffers_.narrow[w].data();
        split(x, y, BeyondLargest<float>{x, y, 1.0, double{largest_}});
    } else {
        const double *x = buffers_.x.data(), *codes = buffers_.codes[w].data();
        split(x, static_cast<const double*>(buffers_.decoded[w].data()),
              BeyondLargest<double>{x, codes, scale_.scale, scale_.largest});
    }
    wire_[w].merge(sent);
}

void SchemeRun::reduce_into(const Reduced& reduced, std::size_t first, std::size_t count,
                            std::uint32_t draw, std::span<double> y, HopMoments* moments) {
    const Topology& topology = reduced.topology;
    const bool exact = reduced.exact, gather = topology.kind == Topology::Kind::gather;
    const PhiloxKey key = replay_key(item_.seed, item_.tensor, item_.step_number, draw);
    const double divisor = this->divisor();
    if (exact && sent_) {
        std::fill(y.begin(), y.end(), -0.0);  // -0 + x is x
        for (const Buffer<float>& row : buffers_.narrow)
            simd::run<AddWidened>(y.data(), row.data(), count);
        if (item_.divide) simd::run<DivideRow>(y.data(), divisor, count);
        return;
    }
    if (sums_ && !exact) {
        std::vector<const float*>& rows = buffers_.narrow_rows;
        rows.clear();
        for (const Buffer<float>& row : buffers_.narrow) rows.push_back(row.data());
        buffers_.narrow_sum.resize(count);
        reduce(topology, rows, first, count, item_.elements, *sums_, key, buffers_.narrow_sum,
               buffers_.narrow_scratch, moments);
        simd::run<WidenAndDivide>(buffers_.narrow_sum.data(), y.data(), divisor, count);
        return;
    }
    std::vector<std::vector<double>> narrowed;
    std::vector<const double*> rows;
    for (std::size_t w = 0; w < wire_.size(); ++w) {
        if (gather) {
            narrowed.emplace_back(count);
            for (std::size_t i = 0; i < count; ++i)
                narrowed[w][i] = static_cast<float>(buffers_.decoded[w][i]);
        }
        rows.push_back(gather  ? narrowed[w].data()
                       : exact ? buffers_.decoded[w].data()
                               : buffers_.codes[w].data());
    }
    reduce(exact ? Topology{} : topology, rows, first, count, item_.elements, accumulator_, key, y,
           buffers_.scratch, moments);
    for (std::size_t i = 0; i < count && !exact && !gather; ++i) y[i] = decode(y[i]);
    if (item_.divide) simd::run<DivideRow>(y.data(), divisor, count);
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
    reduce_into(r, first, count, 0, y, closed_form ? &hops : nullptr);

    const double divisor = this->divisor();
    ResultMoments moments;
    if (closed_form) {
        for (std::size_t i = 0; i < count; ++i) {
            buffers_.hop_bias[i] = buffers_.wire_bias[i] + decode(buffers_.hop_bias[i]);
            buffers_.hop_variance[i] =
                buffers_.wire_variance[i] + decode(decode(buffers_.hop_variance[i]));
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
            encode(w, first, count, static_cast<std::uint32_t>(d), false);
        for (std::size_t r = 0; r < reduced_.size(); ++r) {
            if (!reduced_[r].sampled) continue;
            values[r].resize(draws * count);
            reduce_into(reduced_[r], first, count, static_cast<std::uint32_t>(d),
                        std::span(values[r]).subspan(d * count, count), nullptr);
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
        const std::span<const float> x = item_.gradients[w].subspan(first, reference.size());
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
        if (!moments && !wide_ && encode_and_add(w, first, count)) continue;
        encode(w, first, count, 0, moments);
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
