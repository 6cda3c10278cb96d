// Modules and classes like pybind11's, but every function, method and property computes in a
// FloatEnvironment, whatever rounding mode, flushing of subnormals or traps the caller has set.
// pybind11 converts arguments and results outside of this environment, so no entry point takes or
// returns a C++ float, whose conversion could flush a subnormal number to zero.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "core/float_environment.h"

namespace apscope::python {

using namespace detail;

using Guard = pybind11::call_guard<FloatEnvironment>;

class Module : public pybind11::module_ {
public:
    explicit Module(pybind11::module_& m) : pybind11::module_(m) {}

    template <class Function, class... Extra>
    Module& def(const char* name, Function&& f, const Extra&... extra) {
        pybind11::module_::def(name, std::forward<Function>(f), Guard(), extra...);
        return *this;
    }
};

template <class T, class... Options>
class Class : public pybind11::class_<T, Options...> {
    using Base = pybind11::class_<T, Options...>;

public:
    using Base::Base;

    template <class Function, class... Extra>
    Class& def(const char* name, Function&& f, const Extra&... extra) {
        Base::def(name, std::forward<Function>(f), Guard(), extra...);
        return *this;
    }
    // Adds a constructor, an operator or pickling.
    template <class Factory, class... Extra>
        requires(!std::is_convertible_v<Factory, const char*>)
    Class& def(Factory&& factory, const Extra&... extra) {
        Base::def(std::forward<Factory>(factory), Guard(), extra...);
        return *this;
    }
    template <class Function, class... Extra>
    Class& def_static(const char* name, Function&& f, const Extra&... extra) {
        Base::def_static(name, std::forward<Function>(f), Guard(), extra...);
        return *this;
    }
    template <class Getter, class... Extra>
    Class& def_property_readonly(const char* name, const Getter& getter, const Extra&... extra) {
        Base::def_property_readonly(
            name, pybind11::cpp_function(pybind11::method_adaptor<T>(getter), Guard()),
            pybind11::return_value_policy::reference_internal, extra...);
        return *this;
    }
    // Reading a stored value needs no guard.
    template <class... Arguments>
    Class& def_readonly(Arguments&&... arguments) {
        Base::def_readonly(std::forward<Arguments>(arguments)...);
        return *this;
    }
};

}  // namespace apscope::python
