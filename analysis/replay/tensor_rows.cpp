#include "analysis/replay/tensor_rows.h"

#include <algorithm>
#include <cmath>

#include "analysis/cost/cost_model.h"
#include "analysis/statistics/draw_samples.h"
#include "analysis/statistics/error_statistics.h"
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
    double most = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
        most = std::max(most, in_ulps(x[i], y[i] - x[i], scales[scales.size() == 1 ? 0 : i], units, *scheme.limits));
    }
    return most;
}

std::uint64_t mean_up(const std::vector<Message>& sent, std::uint64_t Message::*bits) {
    std::uint64_t total = 0;
    for (const Message& m : sent) total += m.*bits;
    return (total + sent.size() - 1) / sent.size();
}

std::vector<std::string> topology_names(const TensorScheme& scheme, const ExchangeContext& context) {
    std::vector<std::string> names{"exact"};
    if (!scheme.crosses_topologies) names.push_back(scheme.topology);
    else for (const Topology& t : context.topologies) names.push_back(t.name());
    return names;
}

void fill_grid_use(ResultRow& wire, const std::vector<Message>& sent) {
    GridUse use;
    for (const Message& m : sent) {
        if (!m.grid_use) return;
        use.merge(*m.grid_use);
    }
    wire.subnormal = static_cast<std::int64_t>(use.subnormal);
    wire.saturated = static_cast<std::int64_t>(use.saturated);
    if (wire.counted > 0) wire.max_ulp = use.max_ulp;
}

// Rows that have no closed form, from K draws. reference: of the reduced rows, empty if there are none.
void sample_rows(std::vector<ResultRow>& rows, const TensorScheme& tensor, const Exchange& e, const Rows& truth, const Row& reference,
                 const ExchangeContext& context) {
    const auto lacks = [&](const ResultRow& row) { return std::isnan(row.expected_bias) && row.count > 0 && row.counted == row.count; };
    if (context.draws == 1 || !tensor.draws || e.skipped || std::none_of(rows.begin(), rows.end(), lacks)) return;
    const double divisor = context.divide ? static_cast<double>(truth.size()) : 1.0;
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
            else for (const Row& values : sent[d]) results[d].push_back(values.data());
        }
        sample(r == 0 ? std::span<const Row>(truth) : std::span<const Row>(&reference, 1), results).fill(rows[r]);
    }
}

}  // namespace

std::vector<ResultRow> tensor_rows(const Scheme& scheme, const Exchange& e, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context) {
    const TensorScheme& tensor = *scheme.tensor;
    const std::size_t n = gradients[0].size(), workers = gradients.size();
    Rows truth;
    for (std::size_t w = 0; w < workers; ++w) truth.emplace_back(gradients[w].begin(), gradients[w].end());
    const bool known = std::all_of(e.sent.begin(), e.sent.end(), [n](const Message& m) { return m.variance.size() == n; });
    const bool certain = !tensor.draws || std::all_of(e.sent.begin(), e.sent.end(), [](const Message& m) { return m.certain; });
    const Moments drawn = certain ? Moments::deterministic : known ? Moments::closed_form : Moments::none;
    // Moments are of what was asked; rows speak of the truth.
    const auto bias_of = [&](std::size_t w) {
        Row bias = e.sent[w].bias;
        for (std::size_t i = 0; i < n; ++i) bias[i] += e.asked[w][i] - truth[w][i];
        return bias;
    };

    std::vector<ResultRow> rows;
    const auto start = [&](bool wire, const std::string& topology) -> ResultRow& {
        ResultRow& row = rows.emplace_back();
        row.wire = wire;
        row.topology = topology;
        row.wire_bits = static_cast<std::int64_t>(mean_up(e.sent, &Message::payload_bits));
        row.side_bits = static_cast<std::int64_t>(mean_up(e.sent, &Message::side_bits));
        const Volume volume = volume_of(tensor.transport, topology, static_cast<double>(n), static_cast<double>(row.wire_bits),
                                        static_cast<double>(row.side_bits), static_cast<int>(workers));
        row.volume = volume.inter;
        row.intra_volume = volume.intra;
        row.scale_exponent = e.scale_exponent;
        row.skipped = e.skipped;
        row.note = scheme.note;
        return row;
    };
    ResultRow& wire = start(true, "");
    ErrorStatistics total, own;
    for (std::size_t w = 0; w < workers; ++w) {
        const Message& m = e.sent[w];
        if (e.skipped) {
            add(total, {truth[w], truth[w], {}, {}});
            continue;
        }
        const Row bias = known ? bias_of(w) : Row{};
        add(total, {truth[w], m.values, bias, known ? std::span<const double>(m.variance) : std::span<const double>{}});
        if (tensor.compares_asked) add(own, {e.asked[w], m.values, {}, {}});
    }
    if (e.skipped) {
        fill_skipped(wire, total);
    } else {
        fill_columns(wire, total, drawn, false);
        fill_grid_use(wire, e.sent);
        if (tensor.compares_asked) fill_own(wire, own);
    }
    if (!context.reduces) {
        sample_rows(rows, tensor, e, truth, {}, context);
        return rows;
    }
    const double divisor = context.divide ? static_cast<double>(workers) : 1.0;
    const auto mean_of = [&](const Rows& each) {
        Row mean = each[0];
        for (std::size_t w = 1; w < workers; ++w) {
            for (std::size_t i = 0; i < n; ++i) mean[i] += each[w][i];
        }
        for (double& x : mean) x /= divisor;
        return mean;
    };
    const Row reference = mean_of(truth), own_reference = tensor.compares_asked ? mean_of(e.asked) : Row{};
    Row sum = exact_sum(e.sent), bias, variance;
    if (known) {
        bias.assign(n, 0.0);
        variance.assign(n, 0.0);
        for (std::size_t w = 0; w < workers; ++w) {
            const Row of_worker = bias_of(w);
            for (std::size_t i = 0; i < n; ++i) {
                bias[i] += of_worker[i];
                variance[i] += e.sent[w].variance[i];
            }
        }
        for (double& b : bias) b /= divisor;
        for (double& v : variance) v /= divisor * divisor;
    }
    const auto reduced = [&](const std::string& topology, Row y, bool is_sum) {
        const bool moments = known && is_sum;
        ResultRow& row = start(false, topology);
        if (e.skipped) {
            ErrorStatistics statistics;
            add(statistics, {reference, reference, {}, {}});
            fill_skipped(row, statistics);
            return;
        }
        for (double& v : y) v /= divisor;
        ErrorStatistics statistics;
        add(statistics, {reference, y, moments ? std::span<const double>(bias) : std::span<const double>{},
                         moments ? std::span<const double>(variance) : std::span<const double>{}});
        // Of certain messages only a reduction that draws makes something uncertain.
        fill_columns(row, statistics, is_sum || (certain && !tensor.reduction_draws) ? drawn : Moments::none, false);
        if (const auto ulp = reduced_max_ulp(tensor, e.scales, reference, y, divisor); ulp && statistics.counted > 0) row.max_ulp = *ulp;
        if (!tensor.compares_asked) return;
        ErrorStatistics own_statistics;
        add(own_statistics, {own_reference, y, {}, {}});
        fill_own(row, own_statistics);
    };
    const std::vector<std::string> names = topology_names(tensor, context);
    reduced(names[0], std::move(sum), true);
    for (std::size_t t = 1; t < names.size(); ++t) reduced(names[t], e.reduced.at(t - 1), tensor.is_exact_sum);
    sample_rows(rows, tensor, e, truth, reference, context);
    return rows;
}

std::vector<ResultRow> unmeasurable_rows(const Scheme& scheme, std::size_t elements, int workers, const std::string& missing,
                                         const ExchangeContext& context) {
    std::vector<std::string> names{""};
    if (context.reduces) {
        for (std::string& name : topology_names(*scheme.tensor, context)) names.push_back(std::move(name));
    }
    std::vector<ResultRow> rows;
    for (const std::string& name : names) {
        ResultRow& row = rows.emplace_back();
        row.wire = name.empty();
        row.topology = name;
        row.count = static_cast<std::int64_t>(elements * static_cast<std::size_t>(name.empty() ? workers : 1));
        row.note = "not measurable on this trace: needs " + missing;
    }
    return rows;
}

}  // namespace apscope::detail
