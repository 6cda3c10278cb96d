// The float environment of entry points, for parts of the package that compute with NumPy.
#include <pybind11/pybind11.h>

#include <optional>

#include "bindings/module/guarded.h"
#include "core/float_environment.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

// Sets the float environment of the thread that enters it until it exits; scopes may be nested.
struct Scope {
    std::optional<FloatEnvironment> environment;
};

}  // namespace

void bind_float_environment(python::Module& m);

void bind_float_environment(python::Module& m) {
    // A py::class_, because the guard of python::Class would restore the environment after
    // __enter__.
    py::class_<Scope>(m, "FloatEnvironment")
        .def(py::init<>())
        .def("__enter__", [](Scope& s) { s.environment.emplace(); })
        .def("__exit__", [](Scope& s, const py::args&) { s.environment.reset(); });
}
