#include "analysis/replay/exchange_blocks.h"

#include <algorithm>
#include <cmath>

#include "analysis/replay/exchange_task.h"
#include "emulation/machine/row_kernels.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

namespace {

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

std::uint64_t mean_up(const std::vector<std::uint64_t>& bits) {
    std::uint64_t total = 0;
    for (const std::uint64_t b : bits) total += b;
    return (total + bits.size() - 1) / bits.size();
}

struct WidenRow {
    static APSCOPE_INLINE void run(const float* from, std::size_t count, double* row) {
        for (std::size_t i = 0; i < count; ++i) row[i] = from[i];
    }
};

// Converts a bias relative to the intended value to one relative to the gradient.
struct BiasOfTruth {
    static APSCOPE_INLINE void run(const double* bias, const double* intended, const double* truth,
                                   std::size_t count, double* of_truth) {
#pragma GCC ivdep  // the arrays do not overlap
        for (std::size_t i = 0; i < count; ++i) of_truth[i] = bias[i] + (intended[i] - truth[i]);
    }
};

struct Difference {
    static APSCOPE_INLINE void run(const double* from, const double* what, std::size_t count,
                                   double* left) {
#pragma GCC ivdep  // the arrays do not overlap
        for (std::size_t i = 0; i < count; ++i) left[i] = from[i] - what[i];
    }
};

FloatScale scale_on(const GridLimits& grid, double scale, double units) {
    Cast<double> cast{};
    cast.emin = grid.emin;
    cast.mantissa_bits = grid.mantissa_bits;
    return {cast, scale, units / grid.divisor, grid.smallest_normal, grid.largest};
}

SourceFacts facts_of(const SchemeParts& scheme, const ItemContext& item) {
    SourceFacts facts;
    facts.compares_intended = scheme.memory.compares_intended;
    if (!item.reduces) return facts;
    for (std::string& name : topology_names(scheme, item)) {
        const bool exact = facts.reduced.empty();
        RowFacts& row = facts.reduced.emplace_back();
        row.topology = std::move(name);
        row.exact = exact;
        row.adds_moments = (exact || scheme.encoding.is_exact_sum) && !scheme.choice.draw;
    }
    return facts;
}

}  // namespace

std::vector<std::string> topology_names(const SchemeParts& scheme, const ItemContext& item) {
    std::vector<std::string> names{"exact"};
    if (!scheme.encoding.crosses_topologies()) names.push_back(scheme.topology);
    else
        for (const Topology& t : item.topologies) names.push_back(t.name());
    return names;
}

ExchangeBlocks::ExchangeBlocks(const SchemeParts& scheme, const ItemContext& item,
                               std::span<const AgreedStatistics> statistics)
    : BlockSource(facts_of(scheme, item)), scheme_(scheme), item_(item), statistics_(statistics),
      blocks_(item.gradients.size()), payload_bits_(blocks_.size()), side_bits_(blocks_.size()),
      tensor_bits_(blocks_.size()) {
    if (scheme.encoding.float_encoder)
        limits_ = scheme.encoding.float_encoder->limits(item.workers());
}

void ExchangeBlocks::draw_at(const Exchange& e, std::size_t first) {
    e_ = &e;
    first_ = first;
}

void ExchangeBlocks::look_at(const Exchange& e, std::size_t first) {
    draw_at(e, first);
    for (std::size_t w = 0; w < e.sent.size(); ++w) {
        const Message& m = e.sent[w];
        known_ = known_ && m.variance.size() == m.values.size();
        certain_ = certain_ && m.certain;
        float_grid_ = float_grid_ && m.grid_use;
        in_blocks_ = in_blocks_ && m.block_use;
        if (m.block_use) blocks_[w].append(*m.block_use);
        payload_bits_[w] += m.payload_bits;
        side_bits_[w] = m.side_bits;
        tensor_bits_[w] = m.tensor_bits;
    }
    sum_moments_ = item_.reduces && !e.moments.expected.empty();
    if (sum_moments_) {
        RowFacts& sum = facts_.reduced.back();
        sum.adds_moments = sum.hops_draw = true;
    }
    facts_.skipped = e.skipped;
    // True if the workers round the gradient itself to a float grid, element by element.
    facts_.splits = float_grid_ && !scheme_.basis.transforms() && !scheme_.basis.turns_in_encode &&
                    !scheme_.memory.compensates() && !e.skipped;
    has_scales_ = has_scales_ || !e.scales.empty();
    if (limits_ && e.scales.size() == 1)
        facts_.ulps = scale_on(*limits_, e.scales[0], item_.divisor());
}

// A message's bias is relative to the value that the worker intended to send; result rows compare
// with the gradient, so the bias is converted.
SentBlock ExchangeBlocks::send(std::size_t w, std::size_t first, std::size_t count) {
    const std::size_t at = first - first_;
    const Message& m = e_->sent[w];
    const std::span<const double> intended = std::span(e_->intended[w]).subspan(at, count),
                                  values = std::span(m.values).subspan(at, count);
    truth_.resize(count);
    simd::run<WidenRow>(item_.block(w, first, count).data(), count, truth_.data());
    bias_.resize(known_ ? count : 0);
    SentBlock block;
    std::span<const double> variance;
    if (known_) {
        simd::run<BiasOfTruth>(m.bias.data() + at, intended.data(),
                               static_cast<const double*>(truth_.data()), count, bias_.data());
        variance = std::span(m.variance).subspan(at, count);
    }
    ErrorStatistics& sent = block.statistics;
    sent.add_block<double>(truth_, values, nullptr, bias_, variance);
    sent.moments_defined = are_finite(variance);
    if (at == 0 && m.grid_use) {  // grid_use covers the whole piece, so its first block adds it
        sent.subnormal += m.grid_use->subnormal;
        sent.saturated += m.grid_use->saturated;
        sent.max_ulp = std::max(sent.max_ulp, m.grid_use->max_ulp);
    }
    if (known_) {
        block.variance = variance;
    } else if (sum_moments_) {  // not random: the bias is the error, the variance is 0
        bias_.resize(count);
        nothing_.assign(count, 0.0);
        block.variance = nothing_;
        simd::run<Difference>(values.data(), static_cast<const double*>(truth_.data()), count,
                              bias_.data());
    }
    block.bias = bias_;
    block.saturates = !m.saturated.empty();
    if (block.saturates) {
        const std::uint8_t* marks = m.saturated.data() + at;
        marked_.assign(marks, marks + count);
    }
    block.values = SentBlock::MarkedDoubles{truth_.data(), values.data(), {marked_.data()}};
    block.meant = intended;
    block.sent = values;
    return block;
}

void ExchangeBlocks::read_sent(std::size_t w, std::size_t first, std::span<double> y) {
    std::copy_n(e_->sent[w].values.data() + (first - first_), y.size(), y.begin());
}

// Adds the moments of the reduction's own draws, conditional on the messages: the variance of the
// result, and its expected value minus the sum of the messages.
void ExchangeBlocks::add_sum_moments(std::size_t first, HopMoments& moments) {
    const std::size_t n = moments.bias.size(), at = first - first_;
    const SumMoments& of_exchange = e_->moments;
    std::copy_n(of_exchange.variance.data() + at, n, moments.variance.begin());
    Row& sum = bias_;
    sum.resize(n);
    read_sent(0, first, sum);
    for (std::size_t w = 1; w < e_->sent.size(); ++w)
        simd::run<AddRow>(e_->sent[w].values.data() + at, n, sum.data());
    simd::run<Difference>(of_exchange.expected.data() + at, static_cast<const double*>(sum.data()),
                          n, moments.bias.data());
    moments.defined = are_finite(moments.bias) && are_finite(moments.variance);
}

void ExchangeBlocks::reduce(std::size_t r, std::size_t first, std::span<double> y,
                            HopMoments* moments) {
    const std::size_t at = first - first_;
    if (moments != nullptr) add_sum_moments(first, *moments);
    if (r > 0) {
        std::copy_n(e_->reduced.at(r - 1).data() + at, y.size(), y.begin());
    } else {
        read_sent(0, first, y);
        for (std::size_t w = 1; w < e_->sent.size(); ++w)
            simd::run<AddRow>(e_->sent[w].values.data() + at, y.size(), y.data());
    }
    simd::run<DivideRow>(y.data(), item_.divisor(), y.size());
}

double ExchangeBlocks::max_ulp(std::size_t first, std::span<const double> reference,
                               std::span<const double> y) const {
    double largest = 0.0;
    if (!limits_ || e_->scales.size() <= 1) return largest;
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (!std::isfinite(reference[i]) || !std::isfinite(y[i])) continue;
        largest =
            std::max(largest, in_ulps(reference[i], y[i] - reference[i],
                                      e_->scales[first - first_ + i], item_.divisor(), *limits_));
    }
    return largest;
}

std::optional<RowTask> ExchangeBlocks::task() {
    if (!encodes_on_device(scheme_, item_)) return std::nullopt;
    RowTask task = exchange_task(scheme_, item_, statistics_, facts_.reduced);
    certain_ = !task.wants_moments;
    has_scales_ = true;
    float_grid_ = in_blocks_ = !task.uniform;
    facts_.splits = !task.is_wide();
    const MessageBits bits = message_bits(scheme_, item_.elements());
    std::ranges::fill(payload_bits_, bits.payload);
    std::ranges::fill(side_bits_, bits.side);
    std::ranges::fill(tensor_bits_, bits.of_tensor);
    return task;
}

SentItem ExchangeBlocks::end(std::optional<int> scale_exponent, bool skipped) {
    const bool certain = !scheme_.draws() || certain_;
    const Moments drawn = certain  ? Moments::deterministic
                          : known_ ? Moments::closed_form
                                   : Moments::none;
    RowFacts& wire = facts_.wire;
    wire.moments = drawn;
    wire.float_grid = float_grid_;
    if (float_grid_ && in_blocks_) {
        wire.blocks = BlockUse();
        for (const BlockUse& worker : blocks_) wire.blocks->merge(worker);
    }
    for (RowFacts& row : facts_.reduced) {
        // If messages are not random, only a reduction with draws has a variance.
        row.moments = row.hops_draw && (certain || known_)                    ? Moments::closed_form
                      : row.adds_moments || (certain && !scheme_.sums_draw()) ? drawn
                                                                              : Moments::none;
        row.float_grid = limits_ && has_scales_;
    }
    return {scheme_.transport,     mean_up(payload_bits_), mean_up(side_bits_),
            mean_up(tensor_bits_), scale_exponent,         skipped};
}

bool ExchangeBlocks::may_draw() const {
    return (scheme_.draws() || scheme_.sums_draw()) && item_.draws > 1;
}

}  // namespace apscope::detail
