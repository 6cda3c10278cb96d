// Summaries of the rows of Results, computed by analysis/summary.
#include "bindings/cpp/apscope/summary.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "analysis/cost/scheme_transport.h"
#include "analysis/replay/tensor_rows.h"
#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/comparison.h"
#include "analysis/summary/modelled_time.h"
#include "analysis/summary/pool.h"
#include "analysis/summary/summary.h"
#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/source/result_table.h"
#include "core/float_environment.h"
#include "emulation/schemes/definition.h"

namespace apscope {
namespace {

using detail::Figures;
using detail::RowTable;

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

detail::TimeOptions time_options(const StepTimeOptions& given) {
    const Network& network = given.network;
    detail::TimeOptions options;
    options.links.inter = {network.latency, network.bandwidth};
    options.links.intra = {network.intra_latency.value_or(network.latency),
                           network.intra_bandwidth.value_or(network.bandwidth)};
    options.links.pass_cost = network.pass_cost;
    options.elements = given.elements;
    options.bucket_bytes = given.bucket_bytes;
    options.side = detail::parse_side_messages(given.side);
    options.side_collective = detail::parse_side_collective(given.side_collective);
    options.baseline = given.baseline;
    options.not_measurable = detail::not_measurable;
    return options;
}

// The name of a scheme in the results, given in any spelling.
std::string spec_in(const std::vector<std::string>& held, std::string_view scheme) {
    const std::string spec = detail::parse_scheme(scheme).spec;
    if (std::ranges::find(held, spec) != held.end()) return spec;
    std::string known;
    for (const std::string& name : held) known += (known.empty() ? "" : ", ") + name;
    throw std::invalid_argument("the results have no scheme '" + std::string(scheme) +
                                "'; they have " + known);
}

ComparedScheme compared_scheme(const Figures& f, std::size_t i, const std::string& suffix,
                               std::string scheme, std::string topology) {
    const auto number = [&](const char* name) { return f(name + suffix, i); };
    ComparedScheme out;
    out.scheme = std::move(scheme);
    out.topology = std::move(topology);
    out.error_over_noise = number("error_over_noise");
    out.step_nmse = number("step_nmse");
    out.nmse = number("nmse");
    out.underflow_wire = number("underflow_wire");
    out.underflow_reduced = number("underflow_reduced");
    out.cosine = number("cosine");
    out.overflowed = whole(number("overflowed"));
    out.accumulation = number("accumulation");
    out.share_underflow = number("share_underflow");
    out.share_rounding = number("share_rounding");
    out.share_saturation = number("share_saturation");
    out.share_accumulation = number("share_accumulation");
    out.share_interaction = number("share_interaction");
    return out;
}

}  // namespace

std::vector<SummaryRow> Results::summary(const SummaryOptions& options) const {
    const detail::FloatEnvironment environment;
    if (!(options.batch_factor > 0 && std::isfinite(options.batch_factor)))
        throw std::invalid_argument("batch_factor=" + std::to_string(options.batch_factor) +
                                    " is not a positive number, such as 4");
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    const detail::Summary summary =
        detail::summarized(table, detail::compared_rows(table), {}, options.batch_factor);
    const detail::StepTimes times = detail::step_times(
        table, time_options({.network = options.network, .elements = options.elements}),
        detail::transports());
    const Figures& f = summary.figures;
    std::vector<SummaryRow> rows;
    for (const std::size_t i : detail::ranked(table, summary)) {
        const std::uint32_t first = summary.first[i];
        const auto number = [&](const char* name) { return f(name, i); };
        SummaryRow row;
        row.scheme = table.scheme[first];
        row.family = data_->families[data_->rows[first].scheme_index];
        row.format = summary.format[i];
        row.topology = summary.topology[i];
        row.error_over_noise = number("error_over_noise");
        row.pooled_error_over_noise = number("pooled_error_over_noise");
        row.step_nmse = number("step_nmse");
        row.layer_cosine = number("layer_cosine");
        row.worst_nmse = number("worst_nmse");
        if (summary.worst[i]) {
            row.worst_layer = table.tensor[*summary.worst[i]];
            row.worst_step = data_->step_numbers[data_->rows[*summary.worst[i]].step_index];
        }
        row.nmse = number("nmse");
        row.relative_bias = number("relative_bias");
        row.expected_variance = number("expected_variance");
        row.underflow_wire = number("underflow_wire");
        row.underflow_reduced = number("underflow_reduced");
        row.volume = number("volume");
        row.time = row.speedup = detail::missing;
        for (std::size_t t = 0; t < times.first.size(); ++t) {
            if (table.scheme[times.first[t]] != row.scheme || times.topology[t] != row.topology)
                continue;
            row.time = times.figures("seconds", t);
            row.speedup = times.figures("speedup", t);
        }
        row.skipped = whole(number("skipped"));
        row.overflowed = whole(number("overflowed"));
        row.nonfinite = whole(number("nonfinite"));
        rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<ComparisonRow> Results::compare(std::string_view a, std::string_view b,
                                            std::optional<std::string_view> topology) const {
    const detail::FloatEnvironment environment;
    const std::string spec_a = spec_in(data_->schemes, a), spec_b = spec_in(data_->schemes, b);
    const ResultTable columns(*data_);
    std::vector<ComparisonRow> rows;
    for (const detail::Pair& pair :
         detail::Pairing(columns.table()).pairs(spec_a, spec_b, topology)) {
        const detail::Compared compared = detail::compared(pair, true);
        const Figures& f = compared.figures;
        for (std::size_t i = 0; i < compared.tensor.size(); ++i) {
            const auto& tensor = compared.tensor[i];
            ComparisonRow row;
            row.whole = !tensor;
            row.layer = tensor ? data_->tensor_names[static_cast<std::size_t>(*tensor)] : "all";
            row.steps = whole(f("steps", i));
            row.wins = whole(f("wins", i));
            row.losses = whole(f("losses", i));
            row.ties = whole(f("ties", i));
            row.median_ratio = f("median_ratio", i);
            row.worst_ratio = f("worst_ratio", i);
            row.geometric_ratio = f("geometric_ratio", i);
            row.a = compared_scheme(f, i, "_a", spec_a, pair.topology_a);
            row.b = compared_scheme(f, i, "_b", spec_b, pair.topology_b);
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

PooledTable Results::pool(const std::vector<std::string>& by) const {
    const detail::FloatEnvironment environment;
    const auto has = [&](const char* name) { return std::ranges::find(by, name) != by.end(); };
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    for (const std::string& name : by) {
        if (name != "topology") columns.column(name);
    }
    if (!has("scheme") && data_->schemes.size() > 1)
        throw std::invalid_argument("by pools " + std::to_string(data_->schemes.size()) +
                                    " schemes into one meaningless number; add 'scheme'");
    detail::ChosenRows rows =
        has("topology") ? detail::compared_rows(table) : detail::headline_rows(table);
    if (has("topology") || has("stage")) rows = detail::with_wire(table, rows);
    detail::Groups groups(rows.size());
    for (const std::string& name : by) {
        groups = name == "topology"
                     ? groups.divided(rows.topologies.size(),
                                      [&](std::size_t i) { return rows.topology[i]; })
                     : detail::divided(groups, rows, columns.column(name));
    }
    PooledTable out;
    out.by = by;
    for (const std::uint32_t i : groups.first) {
        std::vector<std::string>& cells = out.groups.emplace_back();
        for (const std::string& name : by)
            cells.push_back(name == "topology" ? rows.topology_of(i)
                                               : columns.cell(name, rows.row[i]));
    }
    const Figures figures = detail::pooled(table, rows, groups);
    for (const Figures::Column& column : figures.columns()) {
        out.columns.push_back(column.name);
        out.values.push_back(column.values);
    }
    return out;
}

double PooledTable::number(std::size_t row, std::string_view column) const {
    const auto found = std::ranges::find(columns, column);
    if (found == columns.end())
        throw std::invalid_argument("the pooled table has no column '" + std::string(column) +
                                    "' of numbers; `columns` lists them");
    return values[static_cast<std::size_t>(found - columns.begin())].at(row);
}

std::vector<StepTime> Results::step_times(const StepTimeOptions& options) const {
    const detail::FloatEnvironment environment;
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    const detail::StepTimes times =
        detail::step_times(table, time_options(options), detail::transports());
    std::vector<StepTime> rows;
    for (std::size_t i = 0; i < times.first.size(); ++i) {
        const auto number = [&](const char* name) { return times.figures(name, i); };
        rows.push_back({table.scheme[times.first[i]], times.topology[i], number("messages"),
                        number("payload_bytes"), number("intra_bytes"), number("side_bytes"),
                        number("side_seconds"), number("pass_seconds"), number("seconds"),
                        number("side_share"), number("fp32_seconds"), number("speedup")});
    }
    return rows;
}

}  // namespace apscope
