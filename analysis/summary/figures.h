// The columns of a result: names with a number per row, in order. NaN is an empty cell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace apscope::detail {

class Figures {
public:
    struct Column {
        std::string name;
        std::vector<double> values;
        bool integer;
    };

    // Adds a column of `rows` numbers, value(0), value(1), ...
    template <class Value>
    std::vector<double>& add(std::string name, std::size_t rows, Value value) {
        return fill(std::move(name), rows, value, false);
    }
    template <class Value>
    std::vector<double>& add_integers(std::string name, std::size_t rows, Value value) {
        return fill(std::move(name), rows, value, true);
    }
    const std::vector<Column>& columns() const { return columns_; }
    // The number of a row in a column, which must exist.
    double operator()(std::string_view name, std::size_t row) const {
        std::size_t i = 0;
        while (columns_[i].name != name) ++i;
        return columns_[i].values[row];
    }
    // A number of a column of integers; it must not be NaN.
    std::int64_t integer(std::string_view name, std::size_t row) const {
        return static_cast<std::int64_t>((*this)(name, row));
    }

private:
    template <class Value>
    std::vector<double>& fill(std::string name, std::size_t rows, Value value, bool integer) {
        std::vector<double> values(rows);
        for (std::size_t i = 0; i < rows; ++i) values[i] = static_cast<double>(value(i));
        columns_.push_back({std::move(name), std::move(values), integer});
        return columns_.back().values;
    }

    std::vector<Column> columns_;
};

}  // namespace apscope::detail
