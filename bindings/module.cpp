// The extension module: one register function a concept, no logic.
#include <pybind11/pybind11.h>

#include "bindings/guarded.h"

namespace py = pybind11;

void register_arithmetic(apscope::python::Module& m);
void register_arrays(apscope::python::Module& m);
void register_blocks(apscope::python::Module& m);
void register_cost(apscope::python::Module& m);
void register_bench(apscope::python::Module& m);
void register_cast_statistics(apscope::python::Module& m);
void register_exchange(apscope::python::Module& m);
void register_float_environment(apscope::python::Module& m);
void register_formats(apscope::python::Module& m);
void register_levels(apscope::python::Module& m);
void register_pooled(apscope::python::Module& m);
void register_replay(apscope::python::Module& m);
void register_schemes(apscope::python::Module& m);
void register_trace(apscope::python::Module& m);

PYBIND11_MODULE(_core, plain) {
    apscope::python::Module m(plain);
    m.doc() = "apscope's C++ core; use the apscope package.";
    m.attr("__version__") = APSCOPE_VERSION;
    register_float_environment(m);
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
