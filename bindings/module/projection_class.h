// Projection as a Python class. _core and _cuda each define one, so that neither needs the other.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "bindings/module/guarded.h"
#include "core/float_format.h"
#include "core/projection.h"
#include "core/rounding_words.h"

namespace apscope::python {

inline void bind_projection(Module& m) {
    namespace py = pybind11;
    const auto make = [](const std::string& rounding, const std::string& overflow,
                         const std::string& underflow, bool keep_payload, int random_bits) {
        const Projection p{parse_rounding(rounding_word(rounding)), parse_overflow(overflow),
                           random_bits, parse_underflow(underflow), keep_payload};
        // fp32 has everything that a projection may need: infinities, NaN, subnormals.
        validate(p, make_format(8, 23));
        return p;
    };
    const auto name = [](auto member) {
        return [member](const Projection& p) { return std::string(to_string(p.*member)); };
    };
    Class<Projection>(m, "Projection", py::module_local())
        .def(py::init(make), py::arg("rounding"), py::arg("overflow"), py::arg("underflow"),
             py::arg("keep_payload"), py::arg("random_bits"))
        .def_property_readonly("rounding", name(&Projection::rounding))
        .def_property_readonly("overflow", name(&Projection::overflow))
        .def_property_readonly("underflow", name(&Projection::underflow))
        .def_readonly("keep_payload", &Projection::keep_payload)
        .def_readonly("random_bits", &Projection::random_bits);
}

}  // namespace apscope::python
