// Writes folders of results, which docs/results_format.md describes.
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/new_folder.h"
#include "bindings/cpp/source/parquet.h"
#include "bindings/cpp/source/provenance.h"
#include "bindings/cpp/source/sentences.h"
#include "bindings/cpp/source/tables_of_results.h"
#include "core/error.h"
#include "core/float_environment.h"

namespace apscope {
namespace {

constexpr std::size_t rows_with_csv = 200'000;  // the most for which results.csv is the default
constexpr const char* mark = "provenance.json";

// Throws std::invalid_argument if results must not be written into a folder.
void check_destination(const std::filesystem::path& folder, bool replace) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string& why) {
        throw error(shown(folder) + " " + why, ErrorKind::existing_file);
    };
    std::error_code failed;
    if (folder.empty()) throw error("the folder's name is empty; give a folder");
    const fs::file_status status = fs::status(folder, failed);
    if (status.type() == fs::file_type::not_found) return;
    if (status.type() != fs::file_type::directory)
        refuse("is not a folder; give another name for the results");
    const bool empty = fs::is_empty(folder, failed);
    if (failed)
        throw error(shown(folder) + " cannot be read: " + failed.message(),
                    ErrorKind::unreadable_file);
    if (empty) return;
    if (fs::exists(folder / "manifest.json"))
        refuse("is a trace; give another folder for the results");
    if (!fs::exists(folder / mark) && is_half_written(folder)) return;
    if (!fs::exists(folder / mark))
        refuse("has files, but no results; give a new folder, or an empty one");
    if (!replace) refuse("has results; give another folder, or WriteOptions{.replace = true}");
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
    check_destination(folder, options.replace);
    NewFolder made(folder, "apscope::Results::write");
    check_destination(folder, options.replace);  // another process may have written it until now
    Json files;
    const auto add = [&](const std::string& name, const WrittenTable& table) {
        const Written written = made.write(name, [&](std::ostream& out) {
            if (name.ends_with(".csv")) apscope::write_csv(table, out);
            else write_parquet(table, out);
        });
        files[name] = {{"bytes", written.bytes}, {"sha256", written.sha256}, {"rows", table.rows}};
    };
    const WrittenTable rows = results_table(*data_);
    if (options.csv.value_or(rows.rows <= rows_with_csv)) add("results.csv", rows);
    add("results.parquet", rows);
    add("histograms.parquet", histogram_table(*data_));
    add("noise.parquet", noise_table(*data_));
    if (!data_->windows.rows.empty()) add("persistence.parquet", window_table(*data_));
    made.write(mark, [&](std::ostream& out) { out << provenance(*data_, std::move(files)); });
    made.put({"results.csv", "results.parquet", "histograms.parquet", "noise.parquet",
              "limit.parquet", "persistence.parquet", mark},
             mark);
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
