// Traces and safetensors files: descriptions as Python values, contents as read-only arrays without
// a copy.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <system_error>

#include "analysis/trace/guess_role.h"
#include "analysis/trace/trace.h"
#include "bindings/module/guarded.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

// A read-only array over the view's values; the array's base keeps them alive.
py::array as_array(TensorView view) {
    std::vector<py::ssize_t> shape(view.shape.begin(), view.shape.end());
    auto* owner = new TensorView(std::move(view));
    py::capsule base(owner, [](void* p) { delete static_cast<TensorView*>(p); });
    py::array_t<float> array(shape, owner->values.data(), base);
    array.attr("setflags")(py::arg("write") = false);
    return array;
}

}  // namespace

void bind_trace(apscope::python::Module& m);

void bind_trace(apscope::python::Module& m) {
    // A file that cannot be opened is an OSError, as everywhere in Python.
    // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11 wants it by value
    py::register_local_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const std::system_error& error) {
            py::set_error(PyExc_OSError, error.what());
        }
    });
    m.def(
        "guess_role",
        [](const std::string& name, std::size_t dimensions) {
            return guess_role(name, dimensions);
        },
        py::arg("name"), py::arg("dimensions"));
    using File = SafetensorsFile;
    python::Class<File, std::shared_ptr<File>>(m, "SafetensorsFile")
        .def_static(
            "open",
            [](const std::filesystem::path& path) {
                return std::const_pointer_cast<File>(File::open(path));
            },
            py::arg("path"))
        .def_property_readonly("names",
                               [](const File& file) {
                                   std::vector<std::string> names;
                                   for (const auto& [name, entry] : file.entries())
                                       names.push_back(name);
                                   return names;
                               })
        .def_property_readonly("metadata", &File::metadata)
        .def(
            "dtype",
            [](const File& file, const std::string& name) {
                file.bytes(name);  // throws if there is no such tensor
                return file.entries().at(name).dtype;
            },
            py::arg("name"))
        .def(
            "shape",
            [](const File& file, const std::string& name) {
                file.bytes(name);
                return py::tuple(py::cast(file.entries().at(name).shape));
            },
            py::arg("name"))
        .def(
            "bytes",
            [](const File& file, const std::string& name) {
                const auto bytes = file.bytes(name);
                return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            },
            py::arg("name"))
        .def(
            "read",
            [](const File& file, const std::string& name) { return as_array(file.read(name)); },
            py::arg("name"));
    python::Class<TensorInfo>(m, "TensorInfo")
        .def_readonly("name", &TensorInfo::name)
        .def_property_readonly("shape",
                               [](const TensorInfo& t) { return py::tuple(py::cast(t.shape)); })
        .def_readonly("role", &TensorInfo::role)
        .def_readonly("sampled_from", &TensorInfo::sampled_from)
        .def_property_readonly("size", &TensorInfo::size)
        .def("__repr__", [](const TensorInfo& t) {
            return py::str("TensorInfo(name={!r}, shape={}, role={!r})")
                .format(t.name, py::tuple(py::cast(t.shape)), t.role);
        });
    python::Class<FileInfo>(m, "FileInfo")
        .def_readonly("name", &FileInfo::name)
        .def_readonly("bytes", &FileInfo::bytes)
        .def_readonly("sha256", &FileInfo::sha256);
    python::Class<StepInfo>(m, "StepInfo")
        .def_readonly("number", &StepInfo::number)
        .def_readonly("loss", &StepInfo::loss)
        .def_readonly("learning_rate", &StepInfo::learning_rate)
        .def_readonly("loss_scale", &StepInfo::loss_scale)
        .def_readonly("files", &StepInfo::files)
        .def("__repr__", [](const StepInfo& s) {
            return py::str("StepInfo(number={}, loss={}, learning_rate={})")
                .format(s.number, s.loss, s.learning_rate);
        });
    python::Class<Manifest>(m, "Manifest")
        .def_readonly("schema_version", &Manifest::schema_version)
        .def_readonly("name", &Manifest::name)
        .def_readonly("model", &Manifest::model)
        .def_readonly("tensors", &Manifest::tensors)
        .def_readonly("steps", &Manifest::steps)
        .def_readonly("workers", &Manifest::workers)
        .def_readonly("stage", &Manifest::stage)
        .def_readonly("reduction", &Manifest::reduction)
        .def_readonly("loss_divided_by_workers", &Manifest::loss_divided_by_workers)
        .def_readonly("metadata", &Manifest::metadata);
    python::Class<Trace>(m, "Trace")
        .def_static("open", &Trace::open, py::arg("path"), py::arg("arriving") = false)
        .def_property_readonly("manifest", &Trace::manifest,
                               py::return_value_policy::reference_internal)
        .def_property_readonly("path", &Trace::path)
        .def_property_readonly("manifest_bytes",
                               [](const Trace& t) { return py::bytes(t.manifest_bytes()); })
        .def(
            "names",
            [](const Trace& t, std::size_t step_index, const std::string& kind) {
                return t.names(step_index, parse_kind(kind));
            },
            py::arg("step_index"), py::arg("kind"))
        .def(
            "has",
            [](const Trace& t, std::size_t step_index, const std::string& kind) {
                return t.has(step_index, parse_kind(kind));
            },
            py::arg("step_index"), py::arg("kind"))
        .def("check_unchanged", &Trace::check_unchanged)
        .def(
            "read",
            [](const Trace& t, std::int64_t step, const std::string& name, int worker,
               const std::string& kind) {
                return as_array(t.read(step, name, worker, parse_kind(kind)));
            },
            py::arg("step"), py::arg("name"), py::arg("worker"), py::arg("kind") = "gradient");
}
