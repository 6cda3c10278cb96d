#include "emulation/schemes/tensor_scheme.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"

namespace apscope::detail {

namespace {

void check_length(const Row& row, std::size_t length, const char* part) {
    if (row.size() == length) return;
    throw std::logic_error(std::string("the scheme's ") + part + " gave " + std::to_string(row.size()) + " values where " + std::to_string(length) +
                           " belong");
}

bool are_finite(const Row& row) {
    double zeros = 0.0;  // a NaN as soon as one is not
    for (std::size_t i = 0; i < row.size(); i += sum_block) {
        zeros += block_sum(std::min(sum_block, row.size() - i), [&](std::size_t k) { return row[i + k] * 0.0; });
    }
    return zeros == 0.0;
}

}  // namespace

double Parameters::common_scale() const {
    if (!scale) throw std::invalid_argument("the scheme's select gave no 'scale'; its encode needs one for all elements");
    return *scale;
}

NamedRows Parameters::rows() const {
    NamedRows all = own.rows();
    if (scale) all["scale"] = {*scale};
    if (!scales.empty()) all["scales"] = scales;
    if (scale_exponent) all["scale_exponent"] = {static_cast<double>(*scale_exponent)};
    if (skipped) all["skipped"] = {1.0};
    return all;
}

Parameters Parameters::of_rows(NamedRows rows) {
    Parameters theta;
    const auto first = [&](const char* name) -> std::optional<double> {
        const auto row = rows.extract(name);
        return row.empty() || row.mapped().empty() ? std::nullopt : std::optional(row.mapped()[0]);
    };
    theta.scale = first("scale");
    if (const auto exponent = first("scale_exponent")) theta.scale_exponent = static_cast<int>(*exponent);
    theta.skipped = first("skipped").value_or(0.0) != 0.0;
    if (auto row = rows.extract("scales"); !row.empty()) theta.scales = std::move(row.mapped());
    theta.own = Record(std::move(rows));
    return theta;
}

Row exact_sum(const std::vector<Message>& sent) {
    Row sum = sent.at(0).values;
    for (std::size_t w = 1; w < sent.size(); ++w) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sent[w].values[i];
    }
    return sum;
}

Row sum_of_codes(const std::vector<Message>& sent) {
    Row sum(sent.at(0).codes.size(), 0.0);
    for (const Message& m : sent) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += m.codes[i];
    }
    return sum;
}

Row gathered_sum(const std::vector<Message>& sent) {
    Row sum(sent.at(0).values.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
        float total = static_cast<float>(sent[0].values[i]);
        for (std::size_t w = 1; w < sent.size(); ++w) total += static_cast<float>(sent[w].values[i]);
        sum[i] = total;
    }
    return sum;
}

Exchange exchange_rows(const TensorScheme& scheme, const TrainingStep& step, State& state, Rows gradients, std::span<const Topology> topologies) {
    const FloatEnvironment environment;
    const std::size_t n = gradients.at(0).size();
    Exchange e;
    e.intended = std::move(gradients);
    if (scheme.compensate) scheme.compensate(step, state, e.intended);
    for (const Row& row : e.intended) check_length(row, n, "compensate");

    const Rows turned = scheme.forward ? scheme.forward(step, state, e.intended) : Rows{};
    const Rows& x = scheme.forward ? turned : e.intended;
    const Parameters theta = scheme.select ? scheme.select(step, state, x) : Parameters{};
    e.scale_exponent = theta.scale_exponent;
    e.skipped = theta.skipped;
    if (scheme.limits && !scheme.inverse) {
        if (!theta.scales.empty()) e.scales = theta.scales;
        else if (theta.scale) e.scales = {*theta.scale};
    }

    for (std::size_t w = 0; w < x.size(); ++w) {
        Message message = scheme.encode(step, theta, x[w], static_cast<int>(w));
        check_length(message.values, x[w].size(), "encode");
        e.sent.push_back(std::move(message));
    }
    const Topology own{Topology::Kind::gather, 0, false};
    const std::span<const Topology> wanted = scheme.crosses_topologies ? topologies : std::span(&own, 1);
    for (const Topology& topology : wanted) {
        Row sum = scheme.reduce ? scheme.reduce(step, state, theta, e.sent, topology) : gathered_sum(e.sent);
        check_length(sum, x[0].size(), "reduce");
        e.reduced.push_back(std::move(sum));
    }
    if (scheme.inverse) {
        const auto back = [&](Row& row) {
            row = scheme.inverse(step, state, row);
            check_length(row, n, "inverse");
        };
        for (Message& message : e.sent) {
            const bool drawn = !message.variance.empty();
            back(message.values);
            if (!drawn) continue;
            back(message.bias);
            if (scheme.inverse_variance) message.variance = scheme.inverse_variance(step, state, message.variance);
            else message.variance.assign(n, std::numeric_limits<double>::quiet_NaN());
            check_length(message.variance, n, "inverse_variance");
        }
        for (Row& row : e.reduced) back(row);
    }
    for (const Message& message : e.sent) check_length(message.values, n, "encode");
    if (scheme.update) scheme.update(step, state, e);
    return e;
}

Exchange exchange(const TensorScheme& scheme, const TrainingStep& step, State& state, std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies) {
    const FloatEnvironment environment;
    struct Special {
        std::size_t worker, element;
        double value;
    };
    std::vector<Special> specials;
    Rows rows;
    for (std::size_t w = 0; w < gradients.size(); ++w) {
        rows.emplace_back(gradients[w].begin(), gradients[w].end());
        if (scheme.sees_special || are_finite(rows[w])) continue;
        for (std::size_t i = 0; i < rows[w].size(); ++i) {
            if (std::isfinite(rows[w][i])) continue;
            specials.push_back({w, i, rows[w][i]});
            rows[w][i] = 0.0;
        }
    }
    Exchange e = exchange_rows(scheme, step, state, std::move(rows), topologies);
    // In rank order: what is not finite swallows the sum it enters.
    for (const Special& s : specials) {
        Message& message = e.sent[s.worker];
        message.values[s.element] = s.value;
        e.intended[s.worker][s.element] = s.value;
        if (!message.variance.empty()) message.bias[s.element] = message.variance[s.element] = 0.0;
        for (Row& row : e.reduced) row[s.element] += s.value;
    }
    return e;
}

}  // namespace apscope::detail
