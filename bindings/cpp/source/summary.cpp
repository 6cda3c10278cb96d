// Summaries of the rows of Results, computed by analysis/summary.
#include "bindings/cpp/apscope/summary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "analysis/cost/scheme_transport.h"
#include "analysis/replay/tensor_rows.h"
#include "analysis/statistics/error_windows.h"
#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/intervals.h"
#include "analysis/summary/losses.h"
#include "analysis/summary/modelled_time.h"
#include "analysis/summary/noise.h"
#include "analysis/summary/pool.h"
#include "analysis/summary/summary.h"
#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/network_links.h"
#include "bindings/cpp/source/result_table.h"
#include "core/error.h"
#include "core/float_environment.h"

namespace apscope {
namespace {

using detail::Figures;
using detail::RowTable;

detail::TimeOptions time_options(const StepTimeOptions& given) {
    detail::TimeOptions options;
    options.links = links_of(given.network);
    options.elements = given.elements;
    options.bucket_bytes = given.bucket_bytes;
    options.side = detail::parse_side_messages(given.side);
    options.side_collective = detail::parse_side_collective(given.side_collective);
    options.baseline = given.baseline;
    options.not_measurable = detail::not_measurable;
    return options;
}

void check_batch_factor(double factor) {
    if (!(factor > 0 && std::isfinite(factor)))
        throw error("batch_factor=" + std::to_string(factor) +
                    " is not a positive number, such as 4");
}

// A row of a summary; its modelled times are NaN.
SummaryRow summary_row(const Results::Data& data, const RowTable& table,
                       const detail::Summary& summary, std::size_t i) {
    const std::uint32_t first = summary.first[i];
    const Figures& figures = summary.figures;
    SummaryRow row;
    row.scheme = table.scheme[first];
    row.family = data.families[data.rows[first].scheme_index];
    row.format = summary.format[i];
    row.topology = summary.topology[i];
#define APSCOPE_FIGURE(name, unit, section, page, value, says) row.name = figures(#name, i);
#define APSCOPE_COUNT(name, unit, section, page, value, says) row.name = figures.integer(#name, i);
#include "analysis/summary/summary_figures.inc"
    for (std::size_t l = 0; l < row.persistence.size(); ++l) {
        const int steps = detail::window_lengths[l];
        const std::string name = "persistence_" + std::to_string(steps);
        const auto of = [&](const std::string& column) { return figures(column, i); };
        row.persistence[l] = {steps, of(name), of(name + "_low"), of(name + "_high"),
                              of("typical_" + name)};
    }
    for (std::size_t l = 0; l < row.update_loss.size(); ++l) {
        const int steps = detail::window_lengths[l + 1];  // windows of one step have no update loss
        const std::string name = "update_loss_" + std::to_string(steps);
        const auto of = [&](const std::string& column) { return figures(column, i); };
        row.update_loss[l] = {steps, of(name), of(name + "_low"), of(name + "_high")};
    }
    if (const auto& worst = summary.worst[i]) {
        row.worst_layer = table.tensor[*worst];
        row.worst_step = data.step_numbers[data.rows[*worst].step_index];
    }
    row.time = row.speedup = detail::missing;
    return row;
}

}  // namespace

std::vector<SummaryRow> Results::summary(const SummaryOptions& options) const try {
    const detail::FloatEnvironment environment;
    check_batch_factor(options.batch_factor);
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    const detail::Summary summary = detail::summarized(
        table, detail::compared_rows(table), {}, options.batch_factor, &data_->noise,
        &data_->windows, detail::asked_optimizer(options.optimizer));
    const detail::StepTimes times = detail::step_times(
        table, time_options({.network = options.network, .elements = options.elements}),
        detail::transports(&made_schemes()));
    std::vector<SummaryRow> rows;
    for (const std::size_t i : detail::ranked(table, summary)) {
        SummaryRow row = summary_row(*data_, table, summary, i);
        for (std::size_t t = 0; t < times.first.size(); ++t) {
            if (table.scheme[times.first[t]] != row.scheme || times.topology[t] != row.topology)
                continue;
            row.time = times.figures("seconds", t);
            row.speedup = times.figures("speedup", t);
        }
        rows.push_back(std::move(row));
    }
    return rows;
} catch (...) {
    detail::throw_error();
}

std::vector<BreakdownRow> Results::by(std::string_view part, const BreakdownOptions& options) const
    try {
    const detail::FloatEnvironment environment;
    check_batch_factor(options.batch_factor);
    const auto known = detail::parse_part(part);
    if (!known) throw error("by='" + std::string(part) + "' is not one of layer, role, step");
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    const detail::Breakdown found =
        detail::broken_down(table, *known, options.topology, options.batch_factor, &data_->noise,
                            &data_->windows, detail::asked_optimizer(options.optimizer));
    const std::string column = *known == detail::Part::layer ? "tensor" : std::string(part);
    std::vector<BreakdownRow> rows;
    for (const std::size_t i : found.order)
        rows.push_back({columns.cell(column, found.summary.first[i]),
                        summary_row(*data_, table, found.summary, i)});
    return rows;
} catch (...) {
    detail::throw_error();
}

std::vector<NoiseFacts> Results::noise_facts(const std::vector<std::string>& by,
                                             double batch_factor) const try {
    const detail::FloatEnvironment environment;
    check_batch_factor(batch_factor);
    std::vector<detail::NoiseBy> columns;
    for (const std::string& name : by) columns.push_back(detail::parse_noise_by(name));
    const detail::NoiseTable& table = data_->noise;
    const detail::NoiseFacts facts = detail::noise_facts(table, columns, batch_factor);
    const Figures& f = facts.figures;
    std::vector<NoiseFacts> rows;
    for (std::size_t i = 0; i < facts.first.size(); ++i) {
        const detail::NoiseRow& first = table.rows[facts.first[i]];
        NoiseFacts row;
        for (const detail::NoiseBy column : columns) row.group.push_back(table.cell(first, column));
        row.workers = f.integer("workers", i);
        row.steps = f.integer("steps", i);
        row.blocks = f.integer("blocks", i);
        row.blocks_without_noise = f.integer("blocks_without_noise", i);
        row.lone_blocks = f.integer("lone_blocks", i);
        row.noise_ratio = f("noise_ratio", i);
        row.noise_scale = f("noise_scale", i);
        row.low = f("low", i);
        row.high = f("high", i);
        rows.push_back(std::move(row));
    }
    return rows;
} catch (...) {
    detail::throw_error();
}

double student_t(double freedom) { return detail::student_t(freedom); }

PooledTable Results::pool(const std::vector<std::string>& by) const try {
    const detail::FloatEnvironment environment;
    const auto has = [&](const char* name) { return std::ranges::find(by, name) != by.end(); };
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    for (const std::string& name : by) {
        if (name != "topology") columns.column(name);
    }
    if (!has("scheme") && data_->schemes.size() > 1)
        throw error("by pools " + std::to_string(data_->schemes.size()) +
                    " schemes into one meaningless number; add 'scheme'");
    const detail::ChosenRows rows = detail::pooled_rows(table, has("stage"), has("topology"));
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
} catch (...) {
    detail::throw_error();
}

double PooledTable::number(std::size_t row, std::string_view column) const {
    const auto found = std::ranges::find(columns, column);
    if (found == columns.end())
        throw error("the pooled table has no column '" + std::string(column) +
                    "' of numbers; `columns` lists them");
    return values[static_cast<std::size_t>(found - columns.begin())].at(row);
}

std::vector<StepTime> Results::step_times(const StepTimeOptions& options) const try {
    const detail::FloatEnvironment environment;
    const ResultTable columns(*data_);
    const RowTable& table = columns.table();
    const detail::StepTimes times =
        detail::step_times(table, time_options(options), detail::transports(&made_schemes()));
    std::vector<StepTime> rows;
    for (std::size_t i = 0; i < times.first.size(); ++i) {
        const auto number = [&](const char* name) { return times.figures(name, i); };
        rows.push_back({table.scheme[times.first[i]], times.topology[i], number("messages"),
                        number("payload_bytes"), number("intra_bytes"), number("node_bytes"),
                        number("side_bytes"), number("side_seconds"), number("pass_seconds"),
                        number("seconds"), number("side_share"), number("fp32_seconds"),
                        number("speedup")});
    }
    return rows;
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
