// Writes folders of results, which docs/results_format.md describes.
#include <apscope/version.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/new_files.h"
#include "bindings/cpp/source/parquet.h"
#include "bindings/cpp/source/result_cells.h"
#include "bindings/cpp/source/results_data.h"
#include "bindings/cpp/source/written_table.h"
#include "core/error.h"
#include "core/float_environment.h"

namespace apscope {
namespace {

using Data = Results::Data;

constexpr std::size_t rows_with_csv = 200'000;  // the most for which results.csv is the default
constexpr const char* mark = "provenance.json";

// Tables
// -----------------------------------------------------------------------------------------

WrittenTable results_table(const Data& d) {
    WrittenTable t{d.rows.size()};
    for (const ResultColumn& column : result_columns()) {
        const std::string name(column.name);
        std::visit(
            [&]<class Value>(ResultColumn::Cell<Value> cell) {
                const auto at = [&d, cell](std::size_t i) { return cell(d, d.rows[i]); };
                if constexpr (std::is_same_v<Value, std::string_view>) t.text(name, at);
                else if constexpr (std::is_same_v<Value, double>) t.real(name, at);
                else if constexpr (std::is_same_v<Value, bool>) t.flag(name, at);
                else t.integer(name, at);
            },
            column.cell);
    }
    return t;
}

// A bin of a histogram with at least one value.
struct Bin {
    const detail::ItemHistogram* item;
    const char* kind;
    std::optional<std::int64_t> exponent;
    std::int64_t count;
};

std::vector<Bin> bins_of(const Data& d) {
    std::vector<Bin> bins;
    for (const detail::ItemHistogram& item : d.histograms) {
        detail::for_each_bin(item.histogram, [&](const char* kind, std::optional<int> exponent,
                                                 std::uint64_t count) {
            bins.push_back({&item, kind, exponent, static_cast<std::int64_t>(count)});
        });
    }
    return bins;
}

WrittenTable histogram_table(const Data& d, const std::vector<Bin>& bins) {
    WrittenTable t{bins.size()};
    t.text("trace", [&d](std::size_t) -> std::string_view { return d.trace; });
    t.integer(
        "step", [&](std::size_t i) { return d.step_numbers[bins[i].item->step_index]; }, false);
    t.text("tensor", [&](std::size_t i) -> std::string_view {
        return d.tensor_names[bins[i].item->tensor_index];
    });
    t.text("role",
           [&](std::size_t i) -> std::string_view { return d.roles[bins[i].item->tensor_index]; });
    t.text("kind", [&](std::size_t i) { return bins[i].kind; });
    t.integer("exponent", [&](std::size_t i) { return bins[i].exponent; });
    t.integer("count", [&](std::size_t i) { return bins[i].count; }, false);
    return t;
}

WrittenTable noise_table(const Data& d) {
    const std::vector<detail::NoiseRow>& rows = d.noise.rows;
    WrittenTable t{rows.size()};
    const auto integer = [&](const char* name, auto of) {
        t.integer(
            name, [&rows, of](std::size_t i) -> std::int64_t { return std::invoke(of, rows[i]); },
            false);
    };
    const auto real = [&](const char* name, double detail::NoiseRow::* of) {
        t.real(name, [&rows, of](std::size_t i) { return rows[i].*of; });
    };
    using Row = detail::NoiseRow;
    const auto place = [](std::int32_t code) { return static_cast<std::size_t>(code); };
    t.text("trace", [&d](std::size_t) -> std::string_view { return d.trace; });
    integer("step", &Row::step);
    t.text("tensor", [&, place](std::size_t i) -> std::string_view {
        return d.noise.tensors[place(rows[i].tensor)];
    });
    t.text("role", [&, place](std::size_t i) -> std::string_view {
        return d.noise.roles[place(rows[i].role)];
    });
    integer("workers", &Row::workers);
    t.integer("without", [&rows](std::size_t i) { return rows[i].without; });
    integer("elements", [&d, place](const Row& r) {
        return static_cast<std::int64_t>(d.manifest.tensors[place(r.tensor)].whole_size());
    });
    integer("blocks", &Row::blocks);
    integer("noise_blocks", &Row::noise_blocks);
    integer("lone_blocks", &Row::lone_blocks);
    real("sum_squared_reference", &Row::squared_reference);
    real("sum_noise", &Row::noise);
    real("sum_log2_ratio", &Row::log2_ratio);
    return t;
}

WrittenTable window_table(const Data& d) {
    using Row = detail::WindowRow;
    const std::vector<Row>& rows = d.windows.rows;
    WrittenTable t{rows.size()};
    const auto text = [&](const char* name, const std::vector<std::string>& texts,
                          std::int32_t Row::* code) {
        t.text(name, [&rows, &texts, code](std::size_t i) -> std::string_view {
            return texts[static_cast<std::size_t>(rows[i].*code)];
        });
    };
    const auto integer = [&](const char* name, std::int64_t Row::* of) {
        t.integer(name, [&rows, of](std::size_t i) { return rows[i].*of; }, false);
    };
    const auto real = [&](const char* name, double Row::* of) {
        t.real(name, [&rows, of](std::size_t i) { return rows[i].*of; });
    };
    const auto updates = [&](const std::string& before, detail::UpdateSums Row::* sums) {
        const auto number = [&](const char* name, double detail::UpdateSums::* of) {
            t.real(before + name, [&rows, sums, of](std::size_t i) { return rows[i].*sums.*of; });
        };
        number("product", &detail::UpdateSums::product);
        number("squared_reference", &detail::UpdateSums::squared_reference);
        number("squared_result", &detail::UpdateSums::squared_result);
    };
    text("trace", d.windows.traces, &Row::trace);
    integer("step", &Row::step);
    text("tensor", d.windows.tensors, &Row::tensor);
    text("scheme", d.windows.schemes, &Row::scheme);
    text("topology", d.windows.topologies, &Row::topology);
    integer("steps", &Row::steps);
    real("sum_squared_error", &Row::squared_error);
    real("sum_noise", &Row::noise);
    integer("noise_blocks", &Row::noise_blocks);
    real("sum_log2_error_over_noise", &Row::log2_over_noise);
    updates("sum_", &Row::sgd);
    updates("adam_", &Row::adam);
    return t;
}

// Provenance
// ------------------------------------------------------------------------------------------

// A word, in quotes if a shell's command line needs them.
std::string quoted(const std::string& word) {
    constexpr std::string_view safe =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
    if (!word.empty() && word.find_first_not_of(safe) == std::string::npos) return word;
    std::string out = "'";
    for (const char c : word) c == '\'' ? out += "'\"'\"'" : out += c;
    return out + "'";
}

std::string steps_text(const ReplayOptions& o) {
    const auto bound = [](const std::optional<std::int64_t>& number) {
        return number ? std::to_string(std::max<std::int64_t>(*number, 0)) : "";
    };
    if (o.steps.empty()) return bound(o.first_step) + ":" + bound(o.end_step);
    if (o.steps.size() == 1)
        return std::to_string(o.steps[0]) + ":" + std::to_string(o.steps[0] + 1);
    std::string text;
    for (const std::int64_t step : o.steps)
        text += (text.empty() ? "" : ",") + std::to_string(step);
    return text;
}

// The options of `apscope replay` that select a part of the trace, the seed and the number of
// draws.
std::vector<std::string> selection_of(const ReplayOptions& o) {
    std::vector<std::string> words;
    const auto add = [&](const char* option, const std::string& value) {
        words.insert(words.end(), {option, value});
    };
    if (o.workers) add("--workers", std::to_string(*o.workers));
    if (o.first_step || o.end_step || !o.steps.empty()) add("--steps", steps_text(o));
    if (!o.tensors.empty()) words.push_back("--tensors=" + o.tensors);
    add("--seed", std::to_string(o.seed));
    if (o.draws != 1) add("--draws", std::to_string(o.draws));
    return words;
}

std::string command_of(const Data& d) {
    std::vector<std::string> words{"apscope", "replay", d.source};
    for (const std::string& spec : d.schemes) words.insert(words.end(), {"--scheme", spec});
    for (const std::string& name : d.topologies) words.insert(words.end(), {"--topology", name});
    if (d.topologies.empty()) words.insert(words.end(), {"--topology", "exact"});
    for (const std::string& word : selection_of(d.options)) words.push_back(word);
    if (d.options.persistence) words.emplace_back("--persistence");
    if (d.options.optimizer) words.insert(words.end(), {"--optimizer", *d.options.optimizer});
    std::string command;
    for (const std::string& word : words) command += (command.empty() ? "" : " ") + quoted(word);
    return command;
}

Json described(const Data& d) {
    const auto number = [](const std::optional<double>& value) {
        return value ? Json(*value) : Json();
    };
    Json steps = Json::array(), losses = steps, rates = steps, tensors = steps;
    for (const std::size_t i : d.steps) {
        const detail::StepInfo& step = d.manifest.steps[i];
        steps.emplace_back(step.number);
        losses.push_back(number(step.loss));
        rates.push_back(number(step.learning_rate));
    }
    for (const std::size_t i : d.tensors) {
        const detail::TensorInfo& tensor = d.manifest.tensors[i];
        Json about{{"name", tensor.name}, {"role", tensor.role}, {"shape", tensor.shape}};
        if (tensor.sampled_from) about["sampled_from"] = *tensor.sampled_from;
        tensors.emplace_back(std::move(about));
    }
    Json about{{"name", d.trace},
               {"hash", d.hash},
               {"model", d.manifest.model},
               {"stage", d.manifest.stage},
               {"reduction", d.manifest.reduction},
               {"workers", d.workers}};
    if (const auto optimizer = d.windows.optimizers.at(0))
        about["optimizer"] = detail::optimizer_names[static_cast<std::size_t>(*optimizer)];
    about["steps"] = std::move(steps);
    about["loss"] = std::move(losses);
    about["learning_rate"] = std::move(rates);
    about["tensors"] = std::move(tensors);
    return about;
}

std::string provenance(const Data& d, Json files) {
    const ReplayOptions& o = d.options;
    const std::string whole = command_of(d);
    const std::string shard =
        " --shard " + std::to_string(o.shard) + "/" + std::to_string(o.shards);
    return indented({{"command", whole + (o.shards > 1 ? shard : "")},
                     {"command_of_whole", whole},
                     {"version", APSCOPE_VERSION},
                     {"seed", o.seed},
                     {"draws", o.draws},
                     {"persistence", o.persistence},
                     {"schemes", d.schemes},
                     {"topologies", d.topologies},
                     {"selection", selection_of(o)},
                     {"shard", {o.shard, o.shards}},
                     {"traces", Json::array({described(d)})},
                     {"files", std::move(files)}}) +
           "\n";
}

// Throws std::invalid_argument if results must not be written into a folder; otherwise returns true
// if the folder has files.
bool has_files(const std::filesystem::path& folder, bool replace) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string& why) {
        throw error(folder.string() + " " + why, ErrorKind::existing_file);
    };
    std::error_code failed;
    if (folder.empty()) throw error("the folder's name is empty; give a folder");
    const fs::file_status status = fs::status(folder, failed);
    if (status.type() == fs::file_type::not_found) return false;
    if (status.type() != fs::file_type::directory)
        refuse("is not a folder; give another name for the results");
    const bool empty = fs::is_empty(folder, failed);
    if (failed)
        throw error(folder.string() + " cannot be read: " + failed.message(),
                    ErrorKind::unreadable_file);
    if (empty) return false;
    if (fs::exists(folder / "manifest.json"))
        refuse("is a trace; give another folder for the results");
    if (!fs::exists(folder / mark) && is_half_written(folder)) return true;
    if (!fs::exists(folder / mark))
        refuse("has files, but no results; give a new folder, or an empty one");
    if (!replace) refuse("has results; give another folder, or WriteOptions{.replace = true}");
    return true;
}

}  // namespace

void Results::write_csv(std::ostream& out) const try {
    const detail::FloatEnvironment environment;
    apscope::write_csv(results_table(*data_), out);
    if (!out) throw std::runtime_error("the stream did not take the results as CSV");
} catch (...) {
    detail::throw_error();
}

void Results::write(const std::filesystem::path& folder, const WriteOptions& options) const try {
    const detail::FloatEnvironment environment;
    const bool into = has_files(folder, options.replace);
    NewFolder made(folder, "apscope::Results::write");
    Json files;
    const auto add = [&](const std::string& name, const WrittenTable& table) {
        const NewFolder::Written written = made.write(name, [&](std::ostream& out) {
            if (name.ends_with(".csv")) apscope::write_csv(table, out);
            else write_parquet(table, APSCOPE_VERSION, out);
        });
        files[name] = {{"bytes", written.bytes}, {"sha256", written.sha256}, {"rows", table.rows}};
    };
    const WrittenTable rows = results_table(*data_);
    if (options.csv.value_or(rows.rows <= rows_with_csv)) add("results.csv", rows);
    add("results.parquet", rows);
    const std::vector<Bin> bins = bins_of(*data_);
    add("histograms.parquet", histogram_table(*data_, bins));
    add("noise.parquet", noise_table(*data_));
    if (!data_->windows.rows.empty()) add("persistence.parquet", window_table(*data_));
    made.write(mark, [&](std::ostream& out) { out << provenance(*data_, std::move(files)); });
    if (into)
        made.put_files({"results.csv", "results.parquet", "histograms.parquet", "noise.parquet",
                        "limit.parquet", "persistence.parquet", mark},
                       mark);
    else made.put_folder();
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
