#include "analysis/summary/row_table.h"

#include <stdexcept>
#include <unordered_map>

namespace apscope::detail {

namespace {

Cells present(Cells values, std::size_t rows, std::string_view name) {
    if (values.size() != rows) {
        throw std::invalid_argument("the results have no column '" + std::string(name) +
                                    "': an older apscope wrote them; replay the trace again");
    }
    return values;
}

}  // namespace

std::optional<NumberColumn> parse_number_column(std::string_view name) {
    for (std::size_t i = 0; i < number_columns.size(); ++i) {
        if (number_columns[i].name == name) return static_cast<NumberColumn>(i);
    }
    return std::nullopt;
}

CodedIntegers::CodedIntegers(std::span<const std::int64_t> of_row) {
    std::unordered_map<std::int64_t, std::int32_t> known;
    codes.reserve(of_row.size());
    for (std::size_t i = 0; i < of_row.size(); ++i) {
        if (i > 0 && of_row[i] == of_row[i - 1]) {
            codes.push_back(codes.back());
            continue;
        }
        const auto [at, is_new] =
            known.try_emplace(of_row[i], static_cast<std::int32_t>(values.size()));
        if (is_new) values.push_back(of_row[i]);
        codes.push_back(at->second);
    }
}

Cells RowTable::operator[](NumberColumn column) const {
    const auto i = static_cast<std::size_t>(column);
    return present(numbers[i], rows, number_columns[i].name);
}

Cells RowTable::workers_of_rows() const { return present(workers, rows, "workers"); }

}  // namespace apscope::detail
