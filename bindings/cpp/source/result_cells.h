// The columns of results, with functions that read their cells, for Results and files of results.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "analysis/statistics/result_row.h"
#include "bindings/cpp/source/results_data.h"

namespace apscope {

struct ResultColumn {
    // A function that reads the cell of a row.
    template <class Value>
    using Cell = Value (*)(const Results::Data&, const detail::ResultRow&);
    using Text = Cell<std::string_view>;
    using Integer = Cell<std::optional<std::int64_t>>;  // none: an empty cell
    using Real = Cell<double>;                          // NaN: an empty cell
    using Flag = Cell<bool>;

    std::string_view name;
    std::variant<Text, Integer, Real, Flag> cell;  // in the order of ColumnKind

    ColumnKind kind() const { return static_cast<ColumnKind>(cell.index()); }
};

std::span<const ResultColumn> result_columns();

}  // namespace apscope
