// The levels of a quantizer with the least variance.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>

#include "bindings/module/guarded.h"
#include "emulation/schemes/codecs/optimal_levels.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

void bind_levels(apscope::python::Module& m) {
    m.def(
        "optimal_levels",
        [](const py::array_t<float, py::array::c_style>& x, std::size_t k,
           const std::string& method, std::size_t candidates) {
            const Row row(x.data(), x.data() + x.size());
            OptimalLevels best;
            {
                const py::gil_scoped_release release;
                best = optimal_levels(row, k, parse_level_search(method), candidates);
            }
            return py::make_tuple(py::array_t<double>(static_cast<py::ssize_t>(best.levels.size()),
                                                      best.levels.data()),
                                  best.variance);
        },
        py::arg("x").noconvert(), py::arg("k"), py::arg("method"), py::arg("candidates"));
}
