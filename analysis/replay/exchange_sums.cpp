#include "analysis/replay/exchange_sums.h"

#include <algorithm>
#include <cmath>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/row_kernels.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

namespace {

constexpr std::span<const double> none;

struct AreFinite {
    static APSCOPE_INLINE void run(const double* row, std::size_t count, bool* all) {
        std::int64_t others = 0;
        for (std::size_t i = 0; i < count; ++i) others |= row[i] - row[i] == 0.0 ? 0 : 1;
        *all = others == 0;
    }
};

bool are_finite(std::span<const double> row) {
    bool finite = true;
    simd::run<AreFinite>(row.data(), row.size(), &finite);
    return finite;
}

void add_pairs(ErrorStatistics& s, std::span<const double> x, std::span<const double> y,
               std::span<const double> bias = none, std::span<const double> variance = none) {
    s.add_block<double>(x, y, nullptr, bias, variance);
    s.moments_defined = s.moments_defined && are_finite(variance);
}

std::uint64_t mean_up(const std::vector<std::uint64_t>& bits) {
    std::uint64_t total = 0;
    for (const std::uint64_t b : bits) total += b;
    return (total + bits.size() - 1) / bits.size();
}

// row += more, where it is `first` the row itself.
void add_to(Row& row, std::span<const double> more, bool first) {
    if (first) row.assign(more.begin(), more.end());
    else simd::run<AddRow>(more.data(), row.size(), row.data());
}

struct WidenRow {
    static APSCOPE_INLINE void run(const float* from, std::size_t count, double* row) {
        for (std::size_t i = 0; i < count; ++i) row[i] = from[i];
    }
};
void widen(std::span<const float> from, Row& row) {
    row.resize(from.size());
    simd::run<WidenRow>(from.data(), from.size(), row.data());
}

// Of the truth where moments are of what was intended.
struct BiasOfTruth {
    static APSCOPE_INLINE void run(const double* bias, const double* intended, const double* truth,
                                   std::size_t count, double* of_truth) {
#pragma GCC ivdep  // a row of its own
        for (std::size_t i = 0; i < count; ++i) of_truth[i] = bias[i] + (intended[i] - truth[i]);
    }
};

}  // namespace

std::vector<std::string> topology_names(const TensorScheme& scheme,
                                        const ExchangeContext& context) {
    std::vector<std::string> names{"exact"};
    if (!scheme.crosses_topologies) names.push_back(scheme.topology);
    else
        for (const Topology& t : context.topologies) names.push_back(t.name());
    return names;
}

ExchangeSums::ExchangeSums(const TensorScheme& scheme,
                           std::span<const std::span<const float>> gradients,
                           const ExchangeContext& context)
    : scheme_(scheme), gradients_(gradients), context_(context),
      divisor_(context.divide ? static_cast<double>(gradients.size()) : 1.0), certain_(true),
      wire_(gradients.size()), own_(gradients.size()), use_(gradients.size()),
      blocks_(gradients.size()), payload_bits_(gradients.size()), side_bits_(gradients.size()) {
    if (!context.reduces) return;
    for (std::string& name : topology_names(scheme, context)) {
        const bool exact = reduced_.empty();
        reduced_.push_back(
            {std::move(name), (exact || scheme.is_exact_sum) && !scheme.shares_draws, {}, {}});
    }
}

void ExchangeSums::add(const Exchange& e, std::size_t first) {
    count(e);
    const std::size_t length = e.intended.at(0).size();
    for (std::size_t at = 0; at < length; at += sum_block)
        add_block(e, at, first + at, std::min(sum_block, length - at));
}

void ExchangeSums::count(const Exchange& e) {
    for (std::size_t w = 0; w < e.sent.size(); ++w) {
        const Message& m = e.sent[w];
        known_ = known_ && m.variance.size() == m.values.size();
        certain_ = certain_ && m.certain;
        float_grid_ = float_grid_ && m.grid_use;
        in_blocks_ = in_blocks_ && m.block_use;
        if (m.grid_use) use_[w].merge(*m.grid_use);
        if (m.block_use) blocks_[w].append(*m.block_use);
        payload_bits_[w] += m.payload_bits;
        side_bits_[w] = m.side_bits;
    }
    // Is what the workers round to a float grid the gradient, element by element?
    const SchemeParts& parts = scheme_.parts;
    splits_ = float_grid_ && !parts.transforms() && !scheme_.rounds_turned &&
              !parts.compensates() && !e.skipped;
    has_scales_ = has_scales_ || !e.scales.empty();
}

// Moments are of what was intended; rows speak of the truth.
void ExchangeSums::add_wire(const Exchange& e, std::size_t w, std::size_t at, std::size_t first,
                            std::size_t count) {
    const Message& m = e.sent[w];
    const std::span<const float> gradients = gradients_[w].subspan(first, count);
    const std::span<const double> intended = std::span(e.intended[w]).subspan(at, count),
                                  values = std::span(m.values).subspan(at, count);
    widen(gradients, truth_);
    if (e.skipped) {
        add_pairs(wire_[w], truth_, truth_);
    } else {
        bias_.resize(known_ ? count : 0);
        if (known_)
            simd::run<BiasOfTruth>(m.bias.data() + at, intended.data(),
                                   static_cast<const double*>(truth_.data()), count, bias_.data());
        const std::span<const double> variance =
            known_ ? std::span(m.variance).subspan(at, count) : none;
        ErrorStatistics sent;
        add_pairs(sent, truth_, values, bias_, variance);
        const std::uint8_t* marks = m.saturated.empty() ? nullptr : m.saturated.data() + at;
        if (marks != nullptr) marked_.assign(marks, marks + count);
        const Marked saturated{marked_.data()};
        account_.add_sent(sent, static_cast<const double*>(truth_.data()), values.data(),
                          marks == nullptr ? nullptr : &saturated);
        wire_[w].merge(sent);
        if (scheme_.compares_intended) add_pairs(own_[w], intended, values);
        if (context_.reduces && known_) {
            add_to(sum_bias_, bias_, false);
            add_to(sum_variance_, variance, false);
        }
    }
    if (!context_.reduces) return;
    add_to(reference_, truth_, w == 0);
    if (scheme_.compares_intended) add_to(own_reference_, intended, w == 0);
}

void ExchangeSums::add_block(const Exchange& e, std::size_t at, std::size_t first,
                             std::size_t count) {
    sum_bias_.assign(known_ ? count : 0, 0.0);
    sum_variance_.assign(known_ ? count : 0, 0.0);
    account_.start(count, divisor_, noise_of(context_.noise, first, count), splits_);
    for (std::size_t w = 0; w < e.sent.size(); ++w) add_wire(e, w, at, first, count);
    if (!context_.reduces) return;
    for (Row* row : {&reference_, &own_reference_, &sum_bias_})
        simd::run<DivideRow>(row->data(), divisor_, row->size());
    simd::run<DivideRow>(sum_variance_.data(), divisor_ * divisor_, sum_variance_.size());
    account_.end_sent();
    add_reduced(e, at, count);
}

void ExchangeSums::add_reduced(const Exchange& e, std::size_t at, std::size_t count) {
    const ResultMoments summed{sum_bias_, sum_variance_, are_finite(sum_variance_)};
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        Reduced& row = reduced_[r];
        if (e.skipped) {
            account_.add_skipped(row.statistics, reference_);
            continue;
        }
        Row& y = r == 0 ? exact_ : y_;
        if (r > 0) {
            const std::span<const double> sum = std::span(e.reduced.at(r - 1)).subspan(at, count);
            y.assign(sum.begin(), sum.end());
        } else {
            for (std::size_t w = 0; w < e.sent.size(); ++w)
                add_to(y, std::span(e.sent[w].values).subspan(at, count), w == 0);
        }
        simd::run<DivideRow>(y.data(), divisor_, count);
        account_.add_result(row.statistics, reference_, y, r == 0,
                            row.adds_moments ? summed : ResultMoments{});
        if (scheme_.compares_intended) add_pairs(row.own, own_reference_, y);
        // The largest error in units in the last place, where the workers share a scale.
        for (std::size_t i = 0; i < count && scheme_.limits && !e.scales.empty(); ++i) {
            if (!std::isfinite(reference_[i]) || !std::isfinite(y[i])) continue;
            const double scale = e.scales[e.scales.size() == 1 ? 0 : at + i];
            row.statistics.max_ulp =
                std::max(row.statistics.max_ulp, in_ulps(reference_[i], y[i] - reference_[i], scale,
                                                         divisor_, *scheme_.limits));
        }
    }
}

std::vector<ResultRow> ExchangeSums::rows(std::optional<int> scale_exponent, bool skipped) const {
    const bool certain = !scheme_.draws || certain_;
    const Moments drawn = certain  ? Moments::deterministic
                          : known_ ? Moments::closed_form
                                   : Moments::none;
    std::vector<RowSums> sums(1);
    RowSums& wire = sums.front();
    wire.moments = drawn;
    if (scheme_.compares_intended) wire.own.emplace();
    GridUse use;
    BlockUse blocks;
    for (std::size_t w = 0; w < wire_.size(); ++w) {
        wire.statistics.merge(wire_[w]);
        if (wire.own) wire.own->merge(own_[w]);
        use.merge(use_[w]);
        blocks.merge(blocks_[w]);
    }
    wire.has_split = splits_;
    if (float_grid_) {
        wire.float_grid = true;
        if (in_blocks_) wire.blocks = blocks;
        wire.statistics.subnormal = use.subnormal;
        wire.statistics.saturated = use.saturated;
        wire.statistics.max_ulp = use.max_ulp;
    }
    for (const Reduced& r : reduced_) {
        RowSums& row = sums.emplace_back();
        row.topology = r.topology;
        row.statistics = r.statistics;
        if (skipped) continue;
        // Of certain messages only a reduction that draws makes something uncertain.
        row.moments =
            r.adds_moments || (certain && !scheme_.reduction_draws) ? drawn : Moments::none;
        row.float_grid = scheme_.limits && has_scales_;
        row.has_split = splits_;
        if (scheme_.compares_intended) row.own = r.own;
    }
    const SentItem sent{scheme_.transport,
                        gradients_[0].size(),
                        static_cast<int>(gradients_.size()),
                        mean_up(payload_bits_),
                        mean_up(side_bits_),
                        scale_exponent,
                        skipped,
                        context_.noise};
    return make_rows(sent, sums);
}

ExchangeSamples::ExchangeSamples(const TensorScheme& scheme, std::span<const ResultRow> rows,
                                 std::span<const std::span<const float>> gradients,
                                 const ExchangeContext& context)
    : gradients_(gradients), divisor_(context.divide ? static_cast<double>(gradients.size()) : 1.0),
      wire_(gradients.size(), DrawSamples(static_cast<std::size_t>(context.draws))),
      reduced_(rows.size() - 1, wire_[0]), sent_(static_cast<std::size_t>(context.draws)),
      sums_(sent_.size()) {
    for (const ResultRow& row : rows) {
        lacks_.push_back(std::isnan(row.expected_bias) && row.count > 0 &&
                         row.counted == row.count && !row.skipped);
        wanted_ = wanted_ || (lacks_.back() != 0 && scheme.draws && context.draws > 1);
    }
}

void ExchangeSamples::take(std::size_t d, const Exchange& e) {
    sent_[d].resize(wire_.size());
    for (std::size_t w = 0; w < wire_.size() && lacks_[0]; ++w) sent_[d][w] = e.sent[w].values;
    sums_[d].resize(reduced_.size());
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        if (!lacks_[r + 1]) continue;
        Row& sum = sums_[d][r];
        if (r == 0) exact_sum(e.sent, sum);
        else sum = e.reduced.at(r - 1);
        simd::run<DivideRow>(sum.data(), divisor_, sum.size());
    }
}

void ExchangeSamples::add(std::size_t first) {
    const std::size_t length = lacks_[0] ? sent_[0][0].size() : 0;
    Row truth, reference;
    const auto blocks = [&](std::size_t size, auto&& work) {
        for (std::size_t at = 0; at < size; at += sum_block)
            work(at, std::min(sum_block, size - at));
    };
    blocks(length, [&](std::size_t at, std::size_t count) {
        for (std::size_t w = 0; w < wire_.size(); ++w) {
            const std::span<const float> gradients = gradients_[w].subspan(first + at, count);
            widen(gradients, truth);
            wire_[w].add_block(truth, [&](std::size_t d) { return sent_[d][w].data() + at; });
        }
    });
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        if (!lacks_[r + 1]) continue;
        blocks(sums_[0][r].size(), [&](std::size_t at, std::size_t count) {
            for (std::size_t w = 0; w < wire_.size(); ++w) {
                const std::span<const float> gradients = gradients_[w].subspan(first + at, count);
                widen(gradients, truth);
                add_to(reference, truth, w == 0);
            }
            simd::run<DivideRow>(reference.data(), divisor_, count);
            reduced_[r].add_block(reference,
                                  [&](std::size_t d) { return sums_[d][r].data() + at; });
        });
    }
}

void ExchangeSamples::fill(std::span<ResultRow> rows) const {
    if (lacks_[0]) {
        DrawSamples all = wire_[0];
        for (std::size_t w = 1; w < wire_.size(); ++w) all.merge(wire_[w]);
        all.fill(rows[0]);
    }
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
        if (lacks_[r + 1]) reduced_[r].fill(rows[r + 1]);
    }
}

}  // namespace apscope::detail
