// NumPy's arrays as spans.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <span>

namespace apscope::python {

template <class T>
std::span<const T> in_span(const pybind11::array_t<T>& a) {
    return {a.data(), static_cast<std::size_t>(a.size())};
}
template <class T>
std::span<T> out_span(pybind11::array_t<T>& a) {
    return {a.mutable_data(), static_cast<std::size_t>(a.size())};
}

}  // namespace apscope::python
