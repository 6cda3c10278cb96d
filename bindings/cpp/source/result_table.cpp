#include "bindings/cpp/source/result_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"

namespace apscope {
namespace {

using detail::NumberColumn;
using detail::Pools;
using Row = detail::ResultRow;

double as_number(double value) { return value; }
double as_number(std::int64_t value) { return static_cast<double>(value); }
double as_number(const std::optional<std::int64_t>& value) {
    return value ? static_cast<double>(*value) : std::numeric_limits<double>::quiet_NaN();
}

// True if summaries use a column.
constexpr bool is_used(std::size_t place) {
    switch (static_cast<NumberColumn>(place)) {
        case NumberColumn::count:
        case NumberColumn::cosine:
        case NumberColumn::expected_variance:
        case NumberColumn::wire_bits:
        case NumberColumn::side_bits: return true;
        default: break;
    }
    const Pools pools = detail::number_columns[place].pools;
    return pools != Pools::nothing && pools != Pools::quotient;
}

}  // namespace

detail::CodedTexts ResultTable::coded(const Results::Data& data, std::vector<std::string> names,
                                      std::uint32_t Row::* index) {
    Column& codes = kept_.emplace_back();
    for (const Row& row : data.rows) codes.push_back(static_cast<std::int32_t>(row.*index));
    const std::size_t levels = names.size();
    return {{codes, levels}, std::move(names)};
}

template <class Text>
detail::CodedTexts ResultTable::found(const Results::Data& data, Text text) {
    Column& codes = kept_.emplace_back();
    std::map<std::string, std::int32_t, std::less<>> known;
    std::vector<std::string> names;
    for (const Row& row : data.rows) {
        const auto [at, is_new] =
            known.try_emplace(text(row), static_cast<std::int32_t>(names.size()));
        if (is_new) names.push_back(at->first);
        codes.push_back(at->second);
    }
    const std::size_t levels = names.size();
    return {{codes, levels}, std::move(names)};
}

ResultTable::ResultTable(const Results::Data& data)
    : workers_(data.rows.size(), static_cast<double>(data.workers)) {
    kept_.reserve(9);  // no reallocation: spans refer to the elements
    table_.rows = data.rows.size();
    table_.trace = found(data, [&](const Row&) { return data.trace; });
    table_.tensor = coded(data, data.tensor_names, &Row::tensor_index);
    table_.role = found(data, [&](const Row& r) { return data.roles[r.tensor_index]; });
    table_.scheme = coded(data, data.schemes, &Row::scheme_index);
    table_.format = found(data, [](const Row& r) { return r.format; });
    table_.topology = found(data, [](const Row& r) { return r.topology; });
    table_.note = found(data, [](const Row& r) { return r.note; });
    stage_ = found(data, [](const Row& r) { return std::string(r.wire ? "wire" : "reduced"); });
    table_.step = coded(data, std::vector<std::string>(data.step_numbers.size()), &Row::step_index);
    table_.steps = data.step_numbers;
    for (const Row& row : data.rows) {
        wire_.push_back(row.wire);
        skipped_.push_back(row.skipped);
    }
    table_.wire = wire_;
    table_.skipped = skipped_;
    table_.workers = detail::Cells(std::span<const double>(workers_));
    const auto add = [&](NumberColumn column, auto field) {
        const auto place = static_cast<std::size_t>(column);
        if (!is_used(place)) return;
        numbers_[place].reserve(data.rows.size());
        for (const Row& row : data.rows) numbers_[place].push_back(as_number(row.*field));
        table_.numbers[place] = detail::Cells(std::span<const double>(numbers_[place]));
    };
#define APSCOPE_ADD(name, unit, section, pools) add(NumberColumn::name, &Row::name);
    APSCOPE_NUMBER_COLUMNS(APSCOPE_ADD, APSCOPE_ADD, APSCOPE_ADD)
#undef APSCOPE_ADD
}

const detail::CodedTexts* ResultTable::texts(std::string_view name) const {
    if (name == "trace") return &table_.trace;
    if (name == "tensor") return &table_.tensor;
    if (name == "role") return &table_.role;
    if (name == "scheme") return &table_.scheme;
    if (name == "format") return &table_.format;
    if (name == "stage") return &stage_;
    return nullptr;
}

detail::Codes ResultTable::column(std::string_view name) const {
    if (name == "step") return table_.step;
    if (const detail::CodedTexts* column = texts(name)) return *column;
    throw error("the results have no column '" + std::string(name) +
                "' to pool by; use trace, step, tensor, role, scheme, format, "
                "topology or stage");
}

std::string ResultTable::cell(std::string_view name, std::size_t row) const {
    if (const detail::CodedTexts* column = texts(name)) return (*column)[row];
    return std::to_string(table_.steps[static_cast<std::size_t>(table_.step.of_row[row])]);
}

}  // namespace apscope
