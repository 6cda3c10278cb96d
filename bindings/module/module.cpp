// The extension module: one register function per concept, no logic.
#include <pybind11/pybind11.h>

#include <memory>

#include "bindings/module/guarded.h"
#include "emulation/schemes/definition.h"

void bind_arithmetic(apscope::python::Module& m);
void bind_arrays(apscope::python::Module& m);
void bind_blocks(apscope::python::Module& m);
void bind_cpd(apscope::python::Module& m);
void bind_summary(apscope::python::Module& m,
                  const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_cost(apscope::python::Module& m,
               const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_bench(apscope::python::Module& m);
void bind_cast_statistics(apscope::python::Module& m);
void bind_noise(apscope::python::Module& m);
void bind_persistence(apscope::python::Module& m);
void bind_exchange(apscope::python::Module& m,
                   const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_step_exchange(apscope::python::Module& m,
                        const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_float_environment(apscope::python::Module& m);
void bind_formats(apscope::python::Module& m);
void bind_levels(apscope::python::Module& m);
void bind_limits(apscope::python::Module& m);
void bind_quantizer(apscope::python::Module& m);
void bind_rate_limit(apscope::python::Module& m);
void bind_replay(apscope::python::Module& m,
                 const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_schemes(apscope::python::Module& m,
                  const std::shared_ptr<apscope::detail::MadeSchemes>& made);
void bind_trace(apscope::python::Module& m);

PYBIND11_MODULE(_core, plain) {
    apscope::python::Module m(plain);
    m.doc() = "apscope's C++ core; use the apscope package.";
    m.attr("__version__") = APSCOPE_VERSION;
    const auto made = std::make_shared<apscope::detail::MadeSchemes>();  // schemes made in Python
                                                                         // with this module
    bind_float_environment(m);
    bind_formats(m);
    bind_arrays(m);
    bind_quantizer(m);
    bind_arithmetic(m);
    bind_blocks(m);
    bind_trace(m);
    bind_schemes(m, made);
    bind_exchange(m, made);
    bind_step_exchange(m, made);
    bind_cast_statistics(m);
    bind_cpd(m);
    bind_levels(m);
    bind_limits(m);
    bind_rate_limit(m);
    bind_replay(m, made);
    bind_cost(m, made);
    bind_noise(m);        // before functions that take its table
    bind_persistence(m);  // also before functions that take its table
    bind_summary(m, made);
    bind_bench(m);
}
