#include "analysis/replay/tensor_rows.h"

#include <algorithm>
#include <cmath>

#include "analysis/replay/row_builder.h"
#include "analysis/statistics/split_kernels.h"
#include "core/fixed_shape_sum.h"

namespace apscope::detail {

namespace {

// What a row is made of: truth, result, and the moments of the draws where they are known.
struct Compared {
    std::span<const double> x, y, bias, variance;
};

void add(ErrorStatistics& statistics, const Compared& c) {
    ErrorStatistics row;
    for (std::size_t first = 0; first < c.x.size(); first += sum_block) {
        const std::size_t count = std::min(sum_block, c.x.size() - first);
        const auto part = [&](std::span<const double> s) { return s.empty() ? s : s.subspan(first, count); };
        row.add_block<double>(part(c.x), part(c.y), nullptr, part(c.bias), part(c.variance));
    }
    for (const double v : c.variance) row.moments_defined = row.moments_defined && v - v == 0.0;
    statistics.merge(row);
}

// A row of one part, or of several, whose statistics add up; results[d][p] is what draw d gave for part p.
DrawSamples sample(std::span<const Row> truth, const std::vector<std::vector<const double*>>& results) {
    DrawSamples samples(results.size());
    for (std::size_t p = 0; p < truth.size(); ++p) {
        DrawSamples part(results.size());
        for (std::size_t first = 0; first < truth[p].size(); first += sum_block) {
            part.add_block(std::span(truth[p]).subspan(first, std::min(sum_block, truth[p].size() - first)),
                           [&](std::size_t d) { return results[d][p] + first; });
        }
        samples.merge(part);
    }
    return samples;
}

// The largest error of the reduced result in units in the last place, where the workers share a scale.
std::optional<double> reduced_max_ulp(const TensorScheme& scheme, const Row& scales, const Row& x, const Row& y, double units) {
    if (!scheme.limits || scales.empty()) return std::nullopt;
    double max = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
        max = std::max(max, in_ulps(x[i], y[i] - x[i], scales[scales.size() == 1 ? 0 : i], units, *scheme.limits));
    }
    return max;
}

// The split of the errors of rows that add up: what was lost and clipped, element by element, over the workers.
struct Split {
    Row exact, lost, clipped;

    // A worker's message, of which the row of the wire is `sent`.
    void add_sent(ErrorStatistics& sent, const Row& truth, const Message& m) {
        lost.resize(truth.size());
        clipped.resize(truth.size());
        ErrorSplit row;
        for (std::size_t first = 0; first < truth.size(); first += sum_block) {
            const auto split = [&]<class Saturated>(Saturated saturated) {
                simd::run<SplitSent<double, Saturated>>(truth.data() + first, m.values.data() + first, saturated,
                                                        std::min(sum_block, truth.size() - first), lost.data() + first, clipped.data() + first, &row);
            };
            if (m.saturated.empty()) split(NoneSaturated{});
            else split(Marked{m.saturated.data() + first});
        }
        sent.split.merge(row);
    }
    void add_reduced(ErrorStatistics& reduced, const Row& reference, const Row& y) const {
        for (std::size_t first = 0; first < y.size(); first += sum_block) {
            simd::run<SplitReduced<true>>(reference.data() + first, exact.data() + first, y.data() + first, lost.data() + first,
                                          clipped.data() + first, std::min(sum_block, y.size() - first), &reduced.split);
        }
    }
};

// Is what the workers round to a float grid the gradient, element by element?
bool rounds_gradients(const TensorScheme& scheme, const Exchange& e) {
    const bool on_grid = std::all_of(e.sent.begin(), e.sent.end(), [](const Message& m) { return m.grid_use.has_value(); });
    return on_grid && !scheme.forward && !scheme.compensate && !e.skipped;
}

std::uint64_t mean_up(const std::vector<Message>& sent, std::uint64_t Message::* bits) {
    std::uint64_t total = 0;
    for (const Message& m : sent) total += m.*bits;
    return (total + sent.size() - 1) / sent.size();
}

std::vector<std::string> topology_names(const TensorScheme& scheme, const ExchangeContext& context) {
    std::vector<std::string> names{"exact"};
    if (!scheme.crosses_topologies) names.push_back(scheme.topology);
    else
        for (const Topology& t : context.topologies) names.push_back(t.name());
    return names;
}

// What all messages say of a float grid, if they do, and of its blocks.
void count_grid_use(RowSums& wire, const std::vector<Message>& sent) {
    GridUse use;
    BlockUse blocks;
    bool in_blocks = true;
    for (const Message& m : sent) {
        if (!m.grid_use) return;
        use.merge(*m.grid_use);
        in_blocks = in_blocks && m.block_use;
        if (m.block_use) blocks.merge(*m.block_use);
    }
    if (in_blocks) wire.blocks = blocks;
    wire.float_grid = true;
    wire.statistics.subnormal = use.subnormal;
    wire.statistics.saturated = use.saturated;
    wire.statistics.max_ulp = use.max_ulp;
}

// Rows that have no closed form, from K draws. reference: of the reduced rows, empty if there are none.
void sample_rows(std::vector<ResultRow>& rows, const TensorScheme& tensor, const Exchange& e, std::span<const std::span<const float>> gradients,
                 const Row& reference, const ExchangeContext& context) {
    const auto lacks = [&](const ResultRow& row) { return std::isnan(row.expected_bias) && row.count > 0 && row.counted == row.count; };
    if (context.draws == 1 || !tensor.draws || e.skipped || std::none_of(rows.begin(), rows.end(), lacks)) return;
    const double divisor = context.divide ? static_cast<double>(gradients.size()) : 1.0;
    Rows truth;
    for (const std::span<const float> row : gradients) truth.emplace_back(row.begin(), row.end());
    std::vector<Rows> sent, reduced;  // per draw: a row a worker, or a row a reduced row
    for (int d = 0; d < context.draws; ++d) {
        Exchange other;
        if (d > 0) other = context.redraw(d);
        const Exchange& drawn = d == 0 ? e : other;
        Rows& sums = reduced.emplace_back();
        if (!reference.empty()) {
            sums.push_back(exact_sum(drawn.sent));
            sums.insert(sums.end(), drawn.reduced.begin(), drawn.reduced.end());
        }
        for (Row& sum : sums) {
            for (double& y : sum) y /= divisor;
        }
        Rows& messages = sent.emplace_back();
        if (!lacks(rows[0])) continue;
        for (const Message& m : drawn.sent) messages.push_back(m.values);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
        if (!lacks(rows[r])) continue;
        std::vector<std::vector<const double*>> results(sent.size());
        for (std::size_t d = 0; d < sent.size(); ++d) {
            if (r > 0) results[d].push_back(reduced[d].at(r - 1).data());
            else
                for (const Row& values : sent[d]) results[d].push_back(values.data());
        }
        sample(r == 0 ? std::span<const Row>(truth) : std::span<const Row>(&reference, 1), results).fill(rows[r]);
    }
}

}  // namespace

std::vector<ResultRow> tensor_rows(const TensorScheme& scheme, Exchange e, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context) {
    const std::size_t n = gradients[0].size(), workers = gradients.size();
    const bool known = std::all_of(e.sent.begin(), e.sent.end(), [n](const Message& m) { return m.variance.size() == n; });
    const bool certain = !scheme.draws || std::all_of(e.sent.begin(), e.sent.end(), [](const Message& m) { return m.certain; });
    const Moments drawn = certain ? Moments::deterministic : known ? Moments::closed_form : Moments::none;

    // Worker after worker: the wire's row, and sums over the workers for the others, each from +0 but the reference's.
    std::vector<RowSums> sums(1);
    RowSums& wire = sums.front();
    wire.moments = drawn;
    if (scheme.compares_intended) wire.own.emplace();
    wire.has_split = rounds_gradients(scheme, e);
    Split split;
    Row reference, own_reference, bias(known ? n : 0), variance(known ? n : 0);
    const auto add_to = [](Row& sum, const Row& row) {
        if (sum.empty()) sum = row;
        else
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    };
    for (std::size_t w = 0; w < workers; ++w) {
        Message& m = e.sent[w];
        const Row truth(gradients[w].begin(), gradients[w].end());
        // Moments are of what was intended; rows speak of the truth.
        for (std::size_t i = 0; i < bias.size(); ++i) m.bias[i] += e.intended[w][i] - truth[i];
        if (e.skipped) {
            add(wire.statistics, {truth, truth, {}, {}});
        } else {
            const std::span<const double> none;
            add(wire.statistics,
                {truth, m.values, known ? std::span<const double>(m.bias) : none, known ? std::span<const double>(m.variance) : none});
            if (wire.has_split) split.add_sent(wire.statistics, truth, m);
            if (wire.own) add(*wire.own, {e.intended[w], m.values, {}, {}});
        }
        if (!context.reduces) continue;
        add_to(reference, truth);
        if (scheme.compares_intended) add_to(own_reference, e.intended[w]);
        for (std::size_t i = 0; i < bias.size(); ++i) {
            bias[i] += m.bias[i];
            variance[i] += m.variance[i];
        }
        for (Row* row : {&m.bias, &m.variance, &e.intended[w]}) Row().swap(*row);
    }
    count_grid_use(wire, e.sent);

    const double divisor = context.divide ? static_cast<double>(workers) : 1.0;
    if (context.reduces) {
        for (Row* row : {&reference, &own_reference, &bias}) {
            for (double& x : *row) x /= divisor;
        }
        for (double& v : variance) v /= divisor * divisor;
        for (Row* row : {&split.lost, &split.clipped}) {
            for (double& v : *row) v /= divisor;
        }
        const auto reduced = [&](const std::string& topology, Row y, bool adds_moments) {
            RowSums& row = sums.emplace_back();
            row.topology = topology;
            if (e.skipped) {
                add(row.statistics, {reference, reference, {}, {}});
                return;
            }
            for (double& v : y) v /= divisor;
            const std::span<const double> none;
            add(row.statistics,
                {reference, y, adds_moments ? std::span<const double>(bias) : none, adds_moments ? std::span<const double>(variance) : none});
            // Of certain messages only a reduction that draws makes something uncertain.
            row.moments = adds_moments || (certain && !scheme.reduction_draws) ? drawn : Moments::none;
            if (const auto ulp = reduced_max_ulp(scheme, e.scales, reference, y, divisor)) {
                row.float_grid = true;
                row.statistics.max_ulp = *ulp;
            }
            row.has_split = sums.front().has_split;
            if (row.has_split) {
                if (split.exact.empty()) split.exact = y;
                split.add_reduced(row.statistics, reference, y);
            }
            if (scheme.compares_intended) add(row.own.emplace(), {own_reference, y, {}, {}});
        };
        const std::vector<std::string> names = topology_names(scheme, context);
        reduced(names[0], exact_sum(e.sent), !scheme.shares_draws);
        for (std::size_t t = 1; t < names.size(); ++t) reduced(names[t], e.reduced.at(t - 1), scheme.is_exact_sum && !scheme.shares_draws);
    }
    const SentItem sent{
        scheme.transport, n,        static_cast<int>(workers), mean_up(e.sent, &Message::payload_bits), mean_up(e.sent, &Message::side_bits),
        e.scale_exponent, e.skipped};
    std::vector<ResultRow> rows = make_rows(sent, sums);
    sample_rows(rows, scheme, e, gradients, reference, context);
    return rows;
}

std::vector<ResultRow> unmeasurable_rows(const TensorScheme& scheme, std::size_t elements, int workers, const std::string& missing,
                                         const ExchangeContext& context) {
    std::vector<std::string> names{""};
    if (context.reduces) {
        for (std::string& name : topology_names(scheme, context)) names.push_back(std::move(name));
    }
    std::vector<ResultRow> rows;
    for (const std::string& name : names) {
        ResultRow& row = rows.emplace_back();
        row.wire = name.empty();
        row.topology = name;
        row.count = static_cast<std::int64_t>(elements * static_cast<std::size_t>(name.empty() ? workers : 1));
        row.note = std::string(not_measurable) + missing;
    }
    return rows;
}

}  // namespace apscope::detail
