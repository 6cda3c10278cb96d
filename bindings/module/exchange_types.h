// Conversions between a scheme's rows or states and NumPy arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "emulation/schemes/exchange.h"

namespace apscope::python {

using namespace detail;

namespace py = pybind11;
// An array of doubles in C order, aligned for double; pybind11 copies other arrays.
using Array = py::array_t<double, py::array::c_style | py::array::forcecast |
                                      py::detail::npy_api::NPY_ARRAY_ALIGNED_>;

inline Array to_array(std::span<const double> row) {
    return Array(static_cast<py::ssize_t>(row.size()), row.data());
}

// An array that owns the row, without a copy.
inline Array to_array(Row&& row) {
    auto* held = new Row(std::move(row));
    const py::capsule owner(held, [](void* p) { delete static_cast<Row*>(p); });
    return Array(static_cast<py::ssize_t>(held->size()), held->data(), owner);
}

inline Array to_array(const Rows& rows) {
    const std::size_t n = rows.empty() ? 0 : rows[0].size();
    Array a({rows.size(), n});
    for (std::size_t w = 0; w < rows.size(); ++w)
        std::copy(rows[w].begin(), rows[w].end(), a.mutable_data() + w * n);
    return a;
}

inline Row to_row(const Array& a) { return Row(a.data(), a.data() + a.size()); }

// One row per worker, from an array whose first axis has the workers; `part` is the Python function
// that returned the array.
inline Rows to_rows(const Array& a, std::size_t workers, const std::string& part) {
    if (a.ndim() == 0 || static_cast<std::size_t>(a.shape(0)) != workers) {
        throw py::value_error(
            part + " gave an array of shape " + std::string(py::str(a.attr("shape"))) +
            "; its first axis must be the " + std::to_string(workers) + " workers");
    }
    const std::size_t n = static_cast<std::size_t>(a.size()) / workers;
    Rows rows;
    for (std::size_t w = 0; w < workers; ++w)
        rows.emplace_back(a.data() + w * n, a.data() + (w + 1) * n);
    return rows;
}

inline py::dict to_dict(NamedRows rows) {
    py::dict d;
    for (auto& [name, row] : rows) d[py::str(name)] = to_array(std::move(row));
    return d;
}

inline NamedRows to_named_rows(const py::dict& d) {
    NamedRows rows;
    for (const auto& [name, value] : d)
        rows[name.cast<std::string>()] = to_row(value.cast<Array>());
    return rows;
}

}  // namespace apscope::python
