// quantize() of small arrays: a format and a projection parsed once, and one call that inspects the
// arrays, allocates the result and rounds.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/module/guarded.h"
#include "emulation/cast/quantize.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

// Exactly NumPy's type, with native numbers of type T, in C order, aligned for T.
template <class T>
bool is_plain(py::handle a) {
    if (Py_TYPE(a.ptr()) != py::detail::npy_api::get().PyArray_Type_ || !py::array_t<T, py::array::c_style>::check_(a)) return false;
    return (py::detail::array_proxy(a.ptr())->flags & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
}

std::span<const py::ssize_t> shape_of(const py::array& a) { return {a.shape(), static_cast<std::size_t>(a.ndim())}; }

class Quantizer {
public:
    Quantizer(const FloatFormat& format, const std::string& rounding, const std::string& overflow, const std::string& underflow, bool keep_payload,
              int random_bits, int threads)
        : format_(format), projection_{parse_rounding(rounding), parse_overflow(overflow), random_bits, parse_underflow(underflow), keep_payload},
          threads_(threads) {
        validate(projection_, format);
    }

    // Returns None if not supported: other arrays, other types than the result's, an `out` that
    // partly overlaps x.
    py::object round(const py::object& x, const py::object& out, std::uint64_t seed) const {
        if (is_plain<float>(x)) return format_.fits_fp32() ? round_plain<float>(x, out, seed) : py::none();
        return is_plain<double>(x) ? round_plain<double>(x, out, seed) : py::none();
    }

private:
    template <class T>
    py::object round_plain(const py::object& given, const py::object& out, std::uint64_t seed) const {
        const auto x = py::reinterpret_borrow<py::array>(given);
        const auto in = std::span(static_cast<const T*>(x.data()), static_cast<std::size_t>(x.size()));
        if (out.is_none()) {
            py::array_t<T> made(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()));
            run<T>(in, {made.mutable_data(), in.size()}, seed);
            return made;
        }
        if (!is_plain<T>(out)) return py::none();
        auto target = py::reinterpret_borrow<py::array>(out);
        if (!target.writeable() || !std::ranges::equal(shape_of(x), shape_of(target))) return py::none();
        const auto result = std::span(static_cast<T*>(target.mutable_data()), in.size());
        const bool apart = result.data() + result.size() <= in.data() || in.data() + in.size() <= result.data();
        if (!apart && result.data() != in.data()) return py::none();
        run<T>(in, result, seed);
        return out;
    }

    template <class T>
    void run(std::span<const T> in, std::span<T> out, std::uint64_t seed) const {
        constexpr std::size_t few = 4096;  // done before another thread would start
        std::optional<py::gil_scoped_release> release;
        if (in.size() > few) release.emplace();
        quantize(in, out, format_, projection_, {seed, 0, {}}, threads_);
    }

    FloatFormat format_;
    Projection projection_;
    int threads_;
};

}  // namespace

void bind_quantizer(apscope::python::Module& m);

void bind_quantizer(apscope::python::Module& m) {
    apscope::python::Class<Quantizer>(m, "Quantizer")
        .def(py::init<const FloatFormat&, const std::string&, const std::string&, const std::string&, bool, int, int>(), py::arg("format"),
             py::arg("rounding"), py::arg("overflow"), py::arg("underflow"), py::arg("keep_payload"), py::arg("random_bits"), py::arg("threads"))
        .def("__call__", &Quantizer::round, py::arg("x"), py::arg("out"), py::arg("seed"));
}
