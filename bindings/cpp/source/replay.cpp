#include "bindings/cpp/apscope/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/selection.h"
#include "analysis/statistics/result_row.h"
#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/apscope/trace.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/result_cells.h"
#include "bindings/cpp/source/results_data.h"
#include "bindings/cpp/source/sha256.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/definition.h"

namespace apscope {
namespace {

// The cell of a column of numbers in a row; NaN: an empty cell.
double number_in(const ResultColumn& column, const Results::Data& d, const detail::ResultRow& row) {
    if (const auto* integer = std::get_if<ResultColumn::Integer>(&column.cell)) {
        const std::optional<std::int64_t> value = (*integer)(d, row);
        return value ? static_cast<double>(*value) : std::numeric_limits<double>::quiet_NaN();
    }
    if (const auto* flag = std::get_if<ResultColumn::Flag>(&column.cell)) return (*flag)(d, row);
    return std::get<ResultColumn::Real>(column.cell)(d, row);
}

const ResultColumn& column_of(std::string_view name, bool text) {
    const auto found = std::ranges::find(result_columns(), name, &ResultColumn::name);
    if (found == result_columns().end())
        throw error("the results have no column '" + std::string(name) + "'; columns() lists them");
    if ((found->kind() == ColumnKind::text) != text) {
        throw error("column '" + std::string(name) + "' holds " + (text ? "numbers" : "text") +
                    "; read it with " + (text ? "number()" : "text()"));
    }
    return *found;
}

detail::NoiseTable noise_table(const detail::Manifest& manifest, int workers,
                               const std::vector<detail::ItemNoise>& items) {
    detail::NoiseTable table;
    table.traces = {manifest.name};
    std::vector<std::int32_t> role_of;  // the code of each tensor's role
    for (const detail::TensorInfo& tensor : manifest.tensors) {
        table.tensors.push_back(tensor.name);
        const auto known = std::ranges::find(table.roles, tensor.role);
        role_of.push_back(static_cast<std::int32_t>(known - table.roles.begin()));
        if (known == table.roles.end()) table.roles.push_back(tensor.role);
    }
    for (const detail::ItemNoise& item : items) {
        detail::NoiseRow row;
        row.tensor = static_cast<std::int32_t>(item.tensor_index);
        row.role = role_of[item.tensor_index];
        row.step = manifest.steps[item.step_index].number;
        row.workers = workers;
        row.blocks = detail::noise_blocks_of(manifest.tensors[item.tensor_index]);
        row.noise_blocks = static_cast<std::int64_t>(item.noise.noisy_blocks);
        row.lone_blocks = static_cast<std::int64_t>(item.noise.lone_blocks);
        row.squared_reference = item.noise.squared_reference;
        row.noise = item.noise.sum;
        table.rows.push_back(row);
        for (std::size_t w = 0; w < item.noise.sum_without.size(); ++w) {
            row.without = static_cast<std::int64_t>(w);
            row.noise = item.noise.sum_without[w];
            row.log2_ratio = item.noise.log2_without[w];
            table.rows.push_back(row);
        }
    }
    return table;
}

detail::WindowTable window_table(const Results::Data& data,
                                 const std::vector<detail::ItemWindow>& windows,
                                 std::optional<detail::Optimizer> optimizer) {
    detail::WindowTable table{{}, {data.trace}, data.tensor_names, data.schemes, {}, {optimizer}};
    for (const detail::ItemWindow& w : windows) {
        const auto known = std::ranges::find(table.topologies, w.topology);
        detail::WindowRow& row = table.rows.emplace_back();
        row.topology = static_cast<std::int32_t>(known - table.topologies.begin());
        if (known == table.topologies.end()) table.topologies.push_back(w.topology);
        row.tensor = static_cast<std::int32_t>(w.tensor_index);
        row.scheme = static_cast<std::int32_t>(w.scheme_index);
        row.step = w.sums.first;
        row.steps = w.sums.steps;
        row.squared_error = w.sums.squared_error;
        row.noise = w.sums.noise;
        row.noise_blocks = w.sums.noise_blocks;
        row.log2_over_noise = w.sums.log2_over_noise;
        row.sgd = w.sums.sgd;
        row.adam = w.sums.adam;
    }
    return table;
}

}  // namespace

Results replay(const Trace& trace, const std::vector<std::string>& schemes,
               const ReplayOptions& options) try {
    const detail::FloatEnvironment environment;
    const detail::Manifest& manifest = trace.trace_->manifest();
    if (schemes.empty())
        throw error("there is no scheme to replay; give at least one, such as 'aps:e4m3'");
    if (options.optimizer && !options.persistence)
        throw error("optimizer='" + *options.optimizer +
                    "' is that of update_loss, which needs persistence");
    const auto told = manifest.metadata.find("optimizer");
    const std::optional<detail::Optimizer> optimizer =
        options.optimizer                 ? detail::parse_optimizer(*options.optimizer)
        : told == manifest.metadata.end() ? std::nullopt
                                          : detail::optimizer_told(told->second);
    detail::ReplayOptions o;
    auto data = std::make_shared<Results::Data>();
    for (const std::string& spec : schemes) {
        detail::Scheme scheme = parse_any_scheme(spec);
        if (std::ranges::find(data->schemes, scheme.spec) != data->schemes.end()) continue;
        data->schemes.push_back(scheme.spec);
        data->families.push_back(scheme.family);
        o.schemes.push_back(std::move(scheme));
    }
    for (const std::string& name : options.topologies) {
        const detail::Topology topology = detail::parse_topology(name);
        if (std::ranges::find(o.topologies, topology) != o.topologies.end()) continue;
        o.topologies.push_back(topology);
        data->topologies.push_back(topology.name());
    }
    if (!options.steps.empty() && (options.first_step || options.end_step))
        throw error("steps are given both as a list and as a range; give one of the two");
    data->options = options;
    data->options.progress = {};
    std::vector<std::int64_t>& steps = data->options.steps;
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    o.steps = steps.empty() ? detail::steps_between(manifest, options.first_step, options.end_step)
                            : detail::steps_numbered(manifest, steps);
    o.tensors = detail::tensors_matching(manifest, options.tensors);
    o.workers = options.workers.value_or(manifest.workers);
    o.seed = options.seed;
    o.threads = options.threads;
    o.draws = options.draws;
    o.memory = options.memory;
    o.persistence = options.persistence;
    o.shard = options.shard;
    o.shards = options.shards;
    if (options.progress) {
        o.progress = [&options](std::size_t done, std::size_t total) {
            detail::call(options.progress, done, total);
        };
    }

    data->trace = manifest.name;
    data->workers = o.workers;
    for (const detail::StepInfo& step : manifest.steps) data->step_numbers.push_back(step.number);
    for (const detail::TensorInfo& tensor : manifest.tensors) {
        data->tensor_names.push_back(tensor.name);
        data->roles.push_back(tensor.role);
    }
    data->steps = o.steps;
    data->tensors = o.tensors;
    detail::ReplayResult result = detail::replay(*trace.trace_, std::move(o));
    data->rows = std::move(result.rows);
    data->histograms = std::move(result.histograms);
    data->manifest = manifest;
    data->hash = sha256(trace.trace_->manifest_bytes());
    data->source = trace.path().string();
    data->noise = noise_table(manifest, data->workers, result.noise);
    data->windows = window_table(*data, result.windows, optimizer);
    return Results(std::move(data));
} catch (...) {
    detail::throw_error();
}

std::size_t Results::size() const { return data_->rows.size(); }

std::span<const Column> Results::columns() {
    static const std::vector<Column> all = [] {
        std::vector<Column> columns;
        for (const ResultColumn& c : result_columns()) columns.push_back({c.name, c.kind()});
        return columns;
    }();
    return all;
}

double Results::number(std::size_t row, std::string_view column) const {
    return number_in(column_of(column, false), *data_, data_->rows.at(row));
}
std::string_view Results::text(std::size_t row, std::string_view column) const& {
    const ResultColumn& c = column_of(column, true);
    return std::get<ResultColumn::Text>(c.cell)(*data_, data_->rows.at(row));
}

std::vector<double> Results::numbers(std::string_view column) const {
    const ResultColumn& c = column_of(column, false);
    std::vector<double> values;
    values.reserve(size());
    for (const detail::ResultRow& row : data_->rows) values.push_back(number_in(c, *data_, row));
    return values;
}
std::vector<std::string_view> Results::texts(std::string_view column) const& {
    const auto cell = std::get<ResultColumn::Text>(column_of(column, true).cell);
    std::vector<std::string_view> values;
    values.reserve(size());
    for (const detail::ResultRow& row : data_->rows) values.push_back(cell(*data_, row));
    return values;
}

const std::string& Results::trace() const { return data_->trace; }
std::vector<std::string> Results::schemes() const { return data_->schemes; }
std::vector<std::string> Results::topologies() const { return data_->topologies; }
std::vector<std::int64_t> Results::steps() const {
    std::vector<std::int64_t> numbers;
    for (const std::size_t i : data_->steps) numbers.push_back(data_->step_numbers[i]);
    return numbers;
}
std::vector<std::string> Results::tensors() const {
    std::vector<std::string> names;
    for (const std::size_t i : data_->tensors) names.push_back(data_->tensor_names[i]);
    return names;
}

}  // namespace apscope
