// quantize() of arrays that need no conversion: the plan is made once, and one call inspects the
// arrays, allocates the result and rounds.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "bindings/module/guarded.h"
#include "emulation/cast/quantize.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

// True for an array of exactly NumPy's type, with native numbers of type T, in C order, aligned for
// T.
template <class T>
bool is_plain(py::handle a) {
    if (Py_TYPE(a.ptr()) != py::detail::npy_api::get().PyArray_Type_ ||
        !py::array_t<T, py::array::c_style>::check_(a))
        return false;
    return (py::detail::array_proxy(a.ptr())->flags & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
}

std::span<const py::ssize_t> shape_of(const py::array& a) {
    return {a.shape(), static_cast<std::size_t>(a.ndim())};
}

class Quantizer {
public:
    Quantizer(const FloatFormat& format, const Projection& projection, int threads)
        : wide_(format, projection), threads_(threads) {
        if (format.fits_fp32()) narrow_.emplace(format, projection);
    }

    // Returns None for arrays that it does not support: other arrays, types other than the
    // result's, an `out` that partly overlaps x.
    py::object round(const py::object& x, const py::object& out, std::uint64_t seed) const {
        if (is_plain<float>(x)) return narrow_ ? round_plain<float>(x, out, seed) : py::none();
        return is_plain<double>(x) ? round_plain<double>(x, out, seed) : py::none();
    }

private:
    template <class T>
    py::object round_plain(const py::object& given, const py::object& out,
                           std::uint64_t seed) const {
        const auto x = py::reinterpret_borrow<py::array>(given);
        const auto in =
            std::span(static_cast<const T*>(x.data()), static_cast<std::size_t>(x.size()));
        if (out.is_none()) {
            py::array_t<T> made(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()));
            run<T>(in, {made.mutable_data(), in.size()}, seed);
            return made;
        }
        if (!is_plain<T>(out)) return py::none();
        auto target = py::reinterpret_borrow<py::array>(out);
        if (!target.writeable() || !std::ranges::equal(shape_of(x), shape_of(target)))
            return py::none();
        const auto result = std::span(static_cast<T*>(target.mutable_data()), in.size());
        const bool apart =
            result.data() + result.size() <= in.data() || in.data() + in.size() <= result.data();
        if (!apart && result.data() != in.data()) return py::none();
        run<T>(in, result, seed);
        return out;
    }

    template <class T>
    void run(std::span<const T> in, std::span<T> out, std::uint64_t seed) const {
        constexpr std::size_t few = 4096;  // rounded before another thread would start
        std::optional<py::gil_scoped_release> release;
        if (in.size() > few) release.emplace();
        if constexpr (std::is_same_v<T, float>) (*narrow_)(in, out, {seed, 0, {}}, threads_);
        else wide_(in, out, {seed, 0, {}}, threads_);
    }

    std::optional<ArrayQuantizer<float>> narrow_;  // if all values of the format are fp32 numbers
    ArrayQuantizer<double> wide_;
    int threads_;
};

}  // namespace

void bind_quantizer(apscope::python::Module& m);

void bind_quantizer(apscope::python::Module& m) {
    apscope::python::Class<Quantizer>(m, "Quantizer")
        .def(py::init<const FloatFormat&, const Projection&, int>(), py::arg("format"),
             py::arg("projection"), py::arg("threads"))
        .def("__call__", &Quantizer::round, py::arg("x"), py::arg("out"), py::arg("seed"));
}
