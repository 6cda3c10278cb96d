// The extension module: one register function a concept, no logic.
#include <pybind11/pybind11.h>

namespace py = pybind11;

void register_arithmetic(py::module_& m);
void register_arrays(py::module_& m);
void register_blocks(py::module_& m);
void register_cost(py::module_& m);
void register_bench(py::module_& m);
void register_cast_statistics(py::module_& m);
void register_exchange(py::module_& m);
void register_formats(py::module_& m);
void register_levels(py::module_& m);
void register_pooled(py::module_& m);
void register_replay(py::module_& m);
void register_schemes(py::module_& m);
void register_trace(py::module_& m);

PYBIND11_MODULE(_core, m) {
    m.doc() = "apscope's C++ core; use the apscope package.";
    m.attr("__version__") = APSCOPE_VERSION;
    register_formats(m);
    register_arrays(m);
    register_arithmetic(m);
    register_blocks(m);
    register_trace(m);
    register_schemes(m);
    register_exchange(m);
    register_cast_statistics(m);
    register_levels(m);
    register_replay(m);
    register_pooled(m);
    register_cost(m);
    register_bench(m);
}
