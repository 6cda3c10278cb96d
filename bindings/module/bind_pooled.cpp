// Pooled sums of results, arranged as (steps, tensors, variants).
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>

#include "analysis/tables/pooled.h"
#include "bindings/module/guarded.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

void bind_pooled(apscope::python::Module& m) {
    m.def("pool", [](const py::array_t<double, py::array::c_style>& table, bool over_steps, bool over_tensors) {
        if (table.ndim() != 3) {
            throw std::invalid_argument("a table to pool has 3 axes (steps, tensors, variants), not " + std::to_string(table.ndim()));
        }
        const std::array<std::size_t, 3> shape{static_cast<std::size_t>(table.shape(0)), static_cast<std::size_t>(table.shape(1)),
                                               static_cast<std::size_t>(table.shape(2))};
        const Pooled pooled = pool({table.data(), static_cast<std::size_t>(table.size())}, shape, over_steps, over_tensors);
        py::array_t<double> sums(pooled.shape);
        py::array_t<std::int64_t> present(pooled.shape);
        std::copy(pooled.sums.begin(), pooled.sums.end(), sums.mutable_data());
        std::copy(pooled.present.begin(), pooled.present.end(), present.mutable_data());
        return py::make_tuple(sums, present);
    }, py::arg("table").noconvert(), py::kw_only(), py::arg("over_steps") = true, py::arg("over_tensors") = true,
          "Adds up a float64 table of shape (steps, tensors, variants) over steps, tensors or both.\n\n"
          "NaN is a missing entry. Returns (sums, present): float64 sums without the axes added over,\n"
          "NaN where no entry is there, and int64 counts of the entries in each. For each step the\n"
          "tensors are added in their order, then the steps in theirs.");
}
