#include "analysis/replay/item_account.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "analysis/cost/cost_model.h"
#include "analysis/statistics/error_windows.h"
#include "core/fixed_shape_sum.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

namespace {

void fill_blocks(ResultRow& row, const BlockUse& use) {
    row.block_count = use.blocks;
    row.block_saturated = use.saturated;
    if (use.blocks == 0) return;
    row.block_range = static_cast<double>(use.range_sum) / static_cast<double>(use.blocks);
    row.block_range_max = use.range_max;
    row.block_scale_spread = use.scale_spread();
}

// sum += row; the first row replaces the sum.
void add_to(Buffer<double>& sum, std::span<const double> row, bool is_first) {
    if (is_first) sum.assign(row.begin(), row.end());
    else simd::run<AddRow>(row.data(), sum.size(), sum.data());
}

// sum = (sum + row) / divisor
struct AddAndDivide {
    static APSCOPE_INLINE void run(const double* row, double divisor, std::size_t count,
                                   double* sum) {
        divide_by(divisor, [&](auto quotient) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < count; ++i) sum[i] = quotient(sum[i] + row[i]);
        });
    }
};

// Calls work(at, count) for every block of `size` elements.
void for_blocks(std::size_t size, const auto& work) {
    for (std::size_t at = 0; at < size; at += sum_block) work(at, std::min(sum_block, size - at));
}

}  // namespace

ItemAccount::ItemAccount(const ItemContext& item, AccountBuffers& buffers,
                         std::unique_ptr<BlockSource> source)
    : item_(item), buffers_(buffers), source_(std::move(source)), reduced_(facts().reduced.size()),
      sent_(item.gradients.size()) {
    if (facts().wire.sampled) sent_samples_.assign(sent_.size(), no_samples());
    for (std::size_t r = 0; r < reduced_.size(); ++r)
        if (facts().reduced[r].sampled) reduced_[r].samples = no_samples();
}

bool ItemAccount::samples() const {
    return !sent_samples_.empty() ||
           std::ranges::any_of(reduced_, [](const RowSums& r) { return !r.samples.empty(); });
}

void ItemAccount::start(std::size_t first, std::span<const double> reference) {
    first_ = first;
    reference_ = reference;
    noise_ = item_.noise_of(first, reference.size());
    classed_ = has_moments_ = false;
    moments_defined_ = true;
}

void ItemAccount::skip() {
    for (std::size_t w = 0; w < sent_.size(); ++w) {
        const std::span<const float> x = item_.block(w, first_, count());
        sent_[w].add_block<float>(x, x, nullptr, {}, {});
    }
    if (reduced_.empty()) return;
    ErrorStatistics& lost = reduced_[0].statistics;
    lost.add_block<double>(reference_, reference_, nullptr, {}, {});
    if (!noise_.empty()) lost.over_noise.add_lost(reference_, noise_);
    for (RowSums& row : reduced_) row.statistics = lost;
    if (item_.windows == nullptr) return;
    buffers_.y.assign(count(), 0.0);
    for (std::size_t r = 0; r < reduced_.size(); ++r)
        if (is_wanted(r)) add_to_windows(r, buffers_.y, false);
}

void ItemAccount::add_to_windows(std::size_t r, std::span<const double> result, bool overflows) {
    if (item_.windows == nullptr) return;
    item_.windows->of(facts().reduced[r].topology)
        .add(item_.step_number, item_.elements(), first_, reference_, result, noise_, overflows);
}

void ItemAccount::add(std::size_t first, std::span<const double> reference) {
    start(first, reference);
    if (facts().skipped) return skip();
    for (std::size_t w = 0; w < sent_.size(); ++w) add_sent(w);
    if (!reduced_.empty()) {
        end_sent();
        known_ = reference_sums(reference);
        for (std::size_t r = 0; r < reduced_.size(); ++r) add_result(r);
    }
    if (!samples()) return;
    for (std::size_t d = 0; d < static_cast<std::size_t>(item_.draws); ++d) {
        source_->draw(d, first, count());
        take_draw(d, first, count());
    }
    add_draws(first);
}

void ItemAccount::add(std::size_t first, std::size_t count) {
    Buffer<double> reference;
    for_blocks(count, [&](std::size_t at, std::size_t size) {
        item_.add_up(first + at, size, reference);
        add(first + at, reference);
    });
}

void ItemAccount::add_sent(std::size_t w) {
    SentBlock sent = source_->send(w, first_, count());
    if (facts().splits) split(sent);
    moments_defined_ = moments_defined_ && sent.statistics.moments_defined;
    sent_[w].merge(sent.statistics);
    if (item_.reduces && !sent.bias.empty()) sum_moments(w, sent.bias, sent.variance);
    if (!facts().compares_intended) return;
    own_sent_.resize(sent_.size());
    own_sent_[w].add_block<double>(sent.meant, sent.sent, nullptr, {}, {});
    if (item_.reduces) add_to(buffers_.intended, sent.meant, w == 0);
}

void ItemAccount::split(SentBlock& sent) {
    ErrorStatistics& s = sent.statistics;
    if (s.underflow == 0 && !sent.saturates) {
        s.split.sums[ErrorSplit::rounding] = s.sums[ErrorStatistics::squared_error];
        return;
    }
    if (!classed_) {
        buffers_.lost.assign(count(), 0.0);
        buffers_.clipped.assign(count(), 0.0);
    }
    classed_ = true;
    std::visit(
        [&]<class Real, class Saturated>(const SentBlock::Values<Real, Saturated>& values) {
            const auto run = [&]<class Which>(const Which& saturated) {
                simd::run<SplitSent<Real, Which>>(values.x, values.y, saturated, count(),
                                                  buffers_.lost.data(), buffers_.clipped.data(),
                                                  &s.split);
            };
            sent.saturates ? run(values.saturated) : run(NoneSaturated{});
        },
        sent.values);
}

void ItemAccount::sum_moments(std::size_t w, std::span<const double> bias,
                              std::span<const double> variance) {
    add_to(buffers_.bias, bias, w == 0);
    add_to(buffers_.variance, variance, w == 0);
    has_moments_ = true;
}

// Divides the sums over the messages, because errors refer to the divided sum.
void ItemAccount::end_sent() {
    const double divisor = item_.divisor();
    if (divisor == 1.0) return;
    const auto divide = [&](Buffer<double>& row) {
        simd::run<DivideRow>(row.data(), divisor, count());
    };
    if (classed_) {
        divide(buffers_.lost);
        divide(buffers_.clipped);
    }
    if (facts().compares_intended) divide(buffers_.intended);
}

void ItemAccount::add_result(std::size_t r) {
    const RowFacts& row = facts().reduced[r];
    RowSums& sums = reduced_[r];
    Buffer<double>& y = r == 0 ? buffers_.exact : buffers_.y;
    y.resize(count());
    if (!is_wanted(r)) {
        if (facts().splits && r == 0)
            source_->reduce(r, first_, y, nullptr);  // the last row's split needs the exact sum
        return;
    }
    Buffer<double>&bias = buffers_.result_bias, &variance = buffers_.result_variance;
    const bool has_moments = row.adds_moments && has_moments_,
               adds_hops = has_moments && row.hops_draw;
    bias.assign(has_moments ? count() : 0, 0.0);
    variance.assign(bias.size(), 0.0);
    HopMoments hops{bias, variance, true};
    source_->reduce(r, first_, y, adds_hops ? &hops : nullptr);
    if (has_moments) {
        const double divisor = item_.divisor();
        simd::run<AddAndDivide>(buffers_.bias.data(), divisor, count(), bias.data());
        simd::run<AddAndDivide>(buffers_.variance.data(), divisor * divisor, count(),
                                variance.data());
    }
    ErrorStatistics block;
    block.moments_defined = !has_moments || (moments_defined_ && hops.defined);
    const std::optional<FloatScale>& ulps = facts().ulps;
    block.add_block<double>(reference_, y, ulps ? &*ulps : nullptr, bias, variance, &known_);
    block.max_ulp = std::max(block.max_ulp, source_->max_ulp(first_, reference_, y));
    if (facts().splits && row.exact && !classed_) {
        block.split.sums[ErrorSplit::rounding] = block.sums[ErrorStatistics::squared_error];
    } else if (facts().splits) {
        const auto split = [&]<bool Classed>() {
            simd::run<SplitReduced<Classed>>(
                reference_.data(), static_cast<const double*>(buffers_.exact.data()),
                static_cast<const double*>(y.data()),
                static_cast<const double*>(buffers_.lost.data()),
                static_cast<const double*>(buffers_.clipped.data()), count(), &block.split);
        };
        classed_ ? split.template operator()<true>() : split.template operator()<false>();
    }
    if (!noise_.empty()) block.over_noise.add(reference_, y, noise_);
    add_to_windows(r, y, block.overflow > 0);
    sums.statistics.merge(block);
    if (facts().compares_intended)
        sums.intended.add_block<double>(buffers_.intended, y, nullptr, {}, {});
}

bool ItemAccount::sample_missing(std::span<const ResultRow> rows) {
    bool measured = false;
    const std::size_t unwanted = 1 + reduced_.size() - rows.size();
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const ResultRow& row = rows[r];
        if (!std::isnan(row.expected_bias) || !(row.count > 0) || row.counted != row.count ||
            row.skipped)
            continue;
        measured = true;
        if (r == 0) sent_samples_.assign(sent_.size(), no_samples());
        else reduced_[r - 1 + unwanted].samples = no_samples();
    }
    return measured;
}

void ItemAccount::take_draw(std::size_t d, std::size_t first, std::size_t count) {
    const auto draws = static_cast<std::size_t>(item_.draws), workers = sent_.size();
    drawn_ = count;
    buffers_.drawn.resize(workers + reduced_.size());
    const auto room = [&](std::size_t row) {
        buffers_.drawn[row].resize(draws * count);
        return std::span(buffers_.drawn[row]).subspan(d * count, count);
    };
    for (std::size_t w = 0; w < sent_samples_.size(); ++w) source_->read_sent(w, first, room(w));
    for (std::size_t r = 0; r < reduced_.size(); ++r)
        if (!reduced_[r].samples.empty()) source_->reduce(r, first, room(workers + r), nullptr);
}

void ItemAccount::add_draws(std::size_t first) {
    const auto add = [&](DrawSamples& samples, std::size_t row, std::size_t at,
                         std::span<const double> of) {
        samples.add_block(
            of, [&](std::size_t d) { return buffers_.drawn[row].data() + d * drawn_ + at; });
    };
    for_blocks(drawn_, [&](std::size_t at, std::size_t size) {
        for (std::size_t w = 0; w < sent_samples_.size(); ++w) {
            const std::span<const float> x = item_.block(w, first + at, size);
            buffers_.y.assign(x.begin(), x.end());
            add(sent_samples_[w], w, at, buffers_.y);
        }
        if (reduced_.empty()) return;
        item_.add_up(first + at, size, buffers_.y);
        for (std::size_t r = 0; r < reduced_.size(); ++r)
            if (DrawSamples& samples = reduced_[r].samples; !samples.empty())
                add(samples, sent_.size() + r, at, buffers_.y);
    });
}

void ItemAccount::take(RowTotals totals) {
    source_->take(totals);
    sent_ = std::move(totals.wire);
    for (ErrorStatistics& sent : sent_) sent.moments_defined = totals.wire_moments_defined;
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        RowTotals::Reduced& from = totals.reduced[r];
        RowSums& row = reduced_[r];
        row.statistics = from.statistics;
        if (facts().reduced[r].adds_moments)
            row.statistics.moments_defined =
                from.statistics.moments_defined && totals.wire_moments_defined;
        row.samples.draw_error = std::move(from.draw_error);
        row.samples.left_out = std::move(from.left_out);
        row.samples.variance_sum = from.variance_sum;
    }
}

RowSums ItemAccount::wire_sums() const {
    RowSums wire;
    for (const ErrorStatistics& worker : sent_) wire.statistics.merge(worker);
    for (const ErrorStatistics& worker : own_sent_) wire.intended.merge(worker);
    for (const DrawSamples& worker : sent_samples_) {
        if (wire.samples.empty()) wire.samples = worker;
        else wire.samples.merge(worker);
    }
    return wire;
}

std::vector<ResultRow> ItemAccount::rows(const SentItem& sent) const {
    std::vector<ResultRow> rows;
    rows.reserve(1 + reduced_.size());
    const double factor = item_.stands_for;
    const auto bits_of_whole = [factor](std::uint64_t bits) {
        return factor == 1.0
                   ? bits
                   : static_cast<std::uint64_t>(std::llround(static_cast<double>(bits) * factor));
    };
    const std::uint64_t wire_bits = bits_of_whole(sent.wire_bits),
                        side_bits =
                            sent.tensor_bits + bits_of_whole(sent.side_bits - sent.tensor_bits);
    const auto make = [&](const RowFacts& facts, const RowSums& s) {
        const SourceFacts& all = this->facts();
        ResultRow& row = rows.emplace_back();
        row.wire = facts.topology.empty();
        row.topology = row.wire && item_.last_alone && !all.reduced.empty()
                           ? all.reduced.back().topology
                           : facts.topology;
        row.wire_bits = static_cast<std::int64_t>(wire_bits);
        row.side_bits = static_cast<std::int64_t>(side_bits);
        const Volume volume = volume_of(
            sent.transport, facts.topology, static_cast<double>(item_.elements()) * factor,
            static_cast<double>(wire_bits), static_cast<double>(side_bits), item_.workers());
        row.volume = volume.inter;
        row.intra_volume = volume.intra;
        row.scale_exponent = sent.scale_exponent;
        row.skipped = sent.skipped;
        if (sent.skipped) {
            fill_skipped(row, s.statistics);
        } else {
            fill_columns(row, s.statistics, facts.moments, facts.float_grid);
            if (all.splits) fill_split(row, s.statistics);
            if (facts.blocks) fill_blocks(row, *facts.blocks);
            if (all.compares_intended) fill_own(row, s.intended);
        }
        if (!row.wire && item_.noise != nullptr && item_.noise->known)
            fill_noise(row, s.statistics.over_noise, item_.noise->sum);
        if (!sent.skipped) s.samples.fill(row);
    };
    make(facts().wire, wire_sums());
    for (std::size_t r = 0; r < reduced_.size(); ++r)
        if (is_wanted(r)) make(facts().reduced[r], reduced_[r]);
    return rows;
}

}  // namespace apscope::detail
