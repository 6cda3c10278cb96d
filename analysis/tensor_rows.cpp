#include "analysis/tensor_rows.h"

#include <algorithm>
#include <cmath>

#include "analysis/cost_model.h"
#include "analysis/error_statistics.h"
#include "core/fixed_shape_sum.h"

namespace apscope {

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

}  // namespace

std::vector<ResultRow> tensor_rows(const Scheme& scheme, const Exchange& e, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context) {
    const TensorScheme& tensor = *scheme.tensor;
    const std::size_t n = gradients[0].size(), workers = gradients.size();
    Rows truth;
    for (std::size_t w = 0; w < workers; ++w) truth.emplace_back(gradients[w].begin(), gradients[w].end());
    const bool known = std::all_of(e.sent.begin(), e.sent.end(), [n](const Message& m) { return m.variance.size() == n; });
    const Moments drawn = !tensor.draws ? Moments::deterministic : known ? Moments::closed_form : Moments::none;
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
        if (tensor.compares_asked) fill_own(wire, own);
    }
    if (!context.reduces) return rows;

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
    const auto reduced = [&](const std::string& topology, Row y, bool moments) {
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
        fill_columns(row, statistics, moments || !tensor.draws ? drawn : Moments::none, false);
        if (!tensor.compares_asked) return;
        ErrorStatistics own_statistics;
        add(own_statistics, {own_reference, y, {}, {}});
        fill_own(row, own_statistics);
    };
    const std::vector<std::string> names = topology_names(tensor, context);
    reduced(names[0], std::move(sum), known);
    for (std::size_t t = 1; t < names.size(); ++t) reduced(names[t], e.reduced.at(t - 1), known && tensor.is_exact_sum);
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

}  // namespace apscope
