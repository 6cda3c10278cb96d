// The statistics of one row as a dict of columns, with None for a column without a value.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>

#include "analysis/statistics/result_row.h"

namespace apscope::python {

using namespace detail;

inline pybind11::dict statistics_dict(const ResultRow& row) {
    namespace py = pybind11;
    py::dict d;
    const auto real = [](double v) -> py::object {
        return std::isnan(v) ? py::object(py::none()) : py::float_(v);
    };
    const auto count = [](const ResultRow::Count& v) -> py::object {
        return v ? py::object(py::int_(*v)) : py::none();
    };
#define APSCOPE_COUNT(name, unit, section, pools) d[#name] = count(row.name);
#define APSCOPE_REAL(name, unit, section, pools) d[#name] = real(row.name);
    APSCOPE_STATISTICS_COLUMNS(APSCOPE_COUNT, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_REAL
    return d;
}

}  // namespace apscope::python
