// A RowTable over NumPy's arrays, and results of summaries as arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "analysis/summary/figures.h"
#include "analysis/summary/row_table.h"

namespace apscope::python {

using namespace detail;

namespace py = pybind11;

using CodeArray = py::array_t<std::int32_t, py::array::c_style | py::array::forcecast>;
template <class T>
using Integers = py::array_t<T, py::array::c_style | py::array::forcecast>;
using IntegerArray = Integers<std::int64_t>;
using FlagArray = py::array_t<bool, py::array::c_style | py::array::forcecast>;
using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

template <class T>
py::array to_array(const std::vector<T>& values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// Fills one field of all rows, which are structs, from a column of a table; a missing column
// changes nothing. A column of texts has codes, and the names of the codes.
template <class Row>
void set_texts(std::vector<Row>& rows, const py::dict& texts, const char* name,
               std::int32_t Row::* field, std::vector<std::string>& names) {
    if (!texts.contains(name)) return;
    const auto [codes, levels] = texts[name].cast<std::pair<CodeArray, std::vector<std::string>>>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int32_t code = codes.at(static_cast<py::ssize_t>(i));
        if (code < 0 || static_cast<std::size_t>(code) >= levels.size())
            throw std::invalid_argument("column '" + std::string(name) + "' has an empty cell");
        rows[i].*field = code;
    }
    if (!levels.empty()) names = levels;
}
// Fills one number of all rows in the same way. place: a member of a row, or a function that
// returns a reference into a row.
template <class Row, class Place>
void set_numbers(std::vector<Row>& rows, const py::dict& columns, const char* name, Place place) {
    using T = std::remove_cvref_t<std::invoke_result_t<Place, Row&>>;
    if (!columns.contains(name)) return;
    const auto values = columns[name].cast<Integers<T>>();
    for (std::size_t i = 0; i < rows.size(); ++i)
        std::invoke(place, rows[i]) = values.at(static_cast<py::ssize_t>(i));
}

inline py::array to_flags(std::span<const std::uint8_t> flags) {
    py::array_t<bool> out(static_cast<py::ssize_t>(flags.size()));
    for (std::size_t i = 0; i < flags.size(); ++i) out.mutable_data()[i] = flags[i] != 0;
    return out;
}

inline py::dict to_dict(const Figures& figures) {
    py::dict out;
    for (const Figures::Column& column : figures.columns()) {
        if (column.integer) {
            const std::vector<std::int64_t> whole(column.values.begin(), column.values.end());
            out[column.name.c_str()] = to_array(whole);
        } else {
            out[column.name.c_str()] = to_array(column.values);
        }
    }
    return out;
}

// A RowTable, and the NumPy arrays to which it refers.
class ArrayTable {
public:
    // texts: per column, the rows' codes and the names of the codes. The arrays must not change.
    ArrayTable(const py::dict& texts, IntegerArray step, FlagArray wire, FlagArray skipped,
               const py::dict& numbers)
        : steps_({step.data(), static_cast<std::size_t>(step.size())}) {
        table_.rows = static_cast<std::size_t>(step.size());
        table_.step = {steps_.codes, steps_.values.size()};
        table_.steps = steps_.values;
        table_.wire = flags(std::move(wire));
        table_.skipped = flags(std::move(skipped));
        for (const auto& [name, column] : texts) {
            const auto [codes, names] =
                column.cast<std::pair<CodeArray, std::vector<std::string>>>();
            kept_.push_back(codes);
            CodedTexts& text = *text_of(name.cast<std::string>());
            static_cast<Codes&>(text) = this->codes(codes, names.size());
            for (const std::int32_t code : text.of_row) {
                if (code < 0)
                    throw std::invalid_argument("column '" + name.cast<std::string>() +
                                                "' has an empty cell; it must have texts");
            }
            text.names = names;
        }
        for (const auto& [name, column] : numbers) {
            const auto place = parse_number_column(name.cast<std::string>());
            (place ? table_.numbers[static_cast<std::size_t>(*place)] : table_.workers) =
                cells(py::reinterpret_borrow<py::object>(column));
        }
    }
    ArrayTable(const ArrayTable&) = delete;
    ArrayTable& operator=(const ArrayTable&) = delete;

    const RowTable& table() const { return table_; }

    // A column for grouping rows. The array must outlive the result.
    Codes codes(const CodeArray& values, std::size_t levels) const {
        check_length(values.size());
        const std::span<const std::int32_t> of_row(values.data(), table_.rows);
        for (const std::int32_t code : of_row) {
            if (code < -1 || code >= static_cast<std::int64_t>(levels))
                throw std::invalid_argument("code " + std::to_string(code) + " is not one of " +
                                            std::to_string(levels));
        }
        return {of_row, levels};
    }
    Codes column(const std::string& name) const {
        if (name == "step") return table_.step;
        return *const_cast<ArrayTable*>(this)->text_of(name);
    }

private:
    void check_length(py::ssize_t size) const {
        if (static_cast<std::size_t>(size) != table_.rows)
            throw std::invalid_argument("a column has " + std::to_string(size) + " rows, not " +
                                        std::to_string(table_.rows));
    }
    Cells cells(const py::object& column) {
        if (py::isinstance<Integers<std::int8_t>>(column)) return kept<std::int8_t>(column);
        if (py::isinstance<Integers<std::int16_t>>(column)) return kept<std::int16_t>(column);
        if (py::isinstance<Integers<std::int32_t>>(column)) return kept<std::int32_t>(column);
        if (py::isinstance<IntegerArray>(column)) return kept<std::int64_t>(column);
        return kept<double>(column);
    }
    template <class T>
    Cells kept(const py::object& column) {
        const auto values = column.cast<Integers<T>>();
        check_length(values.size());
        kept_.push_back(values);
        return Cells(std::span<const T>(values.data(), table_.rows));
    }
    std::span<const std::uint8_t> flags(FlagArray values) {
        check_length(values.size());
        kept_.push_back(values);
        return {reinterpret_cast<const std::uint8_t*>(values.data()), table_.rows};
    }
    CodedTexts* text_of(const std::string& name) {
        const std::map<std::string, CodedTexts*> all = {
            {"trace", &table_.trace},   {"tensor", &table_.tensor}, {"role", &table_.role},
            {"scheme", &table_.scheme}, {"format", &table_.format}, {"topology", &table_.topology},
            {"note", &table_.note}};
        const auto found = all.find(name);
        if (found == all.end()) throw std::invalid_argument("there is no column '" + name + "'");
        return found->second;
    }

    CodedIntegers steps_;
    RowTable table_;
    std::vector<py::array> kept_;
};

}  // namespace apscope::python
