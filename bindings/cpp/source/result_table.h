// The rows of a replay as columns, the input of analysis/summary.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/summary/row_table.h"
#include "bindings/cpp/source/results_data.h"

namespace apscope {

class ResultTable {
public:
    explicit ResultTable(const Results::Data& data);
    ResultTable(const ResultTable&) = delete;
    ResultTable& operator=(const ResultTable&) = delete;

    const detail::RowTable& table() const { return table_; }
    // The codes of a column of names or steps, for grouping rows by it. Throws
    // std::invalid_argument if there is no such column.
    detail::Codes column(std::string_view name) const;
    // The text of a row's cell in such a column; the number for a step.
    std::string cell(std::string_view name, std::size_t row) const;

private:
    // A column of names; null if there is none of this name for grouping.
    const detail::CodedTexts* texts(std::string_view name) const;

    using Column = std::vector<std::int32_t>;
    // A column of texts, from the index of each row into `names`.
    detail::CodedTexts coded(const Results::Data& data, std::vector<std::string> names,
                             std::uint32_t detail::ResultRow::* index);
    // A column of texts, from the text of each row; names are in the order of their first rows.
    template <class Text>
    detail::CodedTexts found(const Results::Data& data, Text text);

    // The arrays to which the spans of table_ and stage_ refer.
    std::vector<Column> kept_;
    std::vector<std::uint8_t> wire_, skipped_;
    std::vector<double> workers_;
    std::array<std::vector<double>, detail::number_columns.size()> numbers_;
    detail::CodedTexts stage_;
    detail::RowTable table_;
};

}  // namespace apscope
