// Replay, its rows as columns.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <unordered_map>

#include "analysis/replay.h"
#include "bindings/exchange_types.h"
#include "bindings/result_columns.h"
#include "bindings/row_device_capsule.h"

namespace py = pybind11;
using namespace apscope;

namespace {

template <class Row, class Get>
py::array_t<std::int64_t> plain_integers(const std::vector<Row>& rows, Get get) {
    py::array_t<std::int64_t> values(static_cast<py::ssize_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) values.mutable_data()[i] = get(rows[i]);
    return values;
}

// An integer column with empty places: values and a mask of the empty ones.
template <class Row, class Get>
py::tuple integers(const std::vector<Row>& rows, Get get) {
    py::array_t<std::int64_t> values(static_cast<py::ssize_t>(rows.size()));
    py::array_t<bool> empty(static_cast<py::ssize_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::optional<std::int64_t> v = get(rows[i]);
        values.mutable_data()[i] = v.value_or(0);
        empty.mutable_data()[i] = !v;
    }
    return py::make_tuple(values, empty);
}

template <class Get>
py::array_t<double> reals(const std::vector<ResultRow>& rows, Get get) {
    py::array_t<double> values(static_cast<py::ssize_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) values.mutable_data()[i] = get(rows[i]);
    return values;
}

// Texts as an array of objects, each one's string made once.
class Texts {
public:
    explicit Texts(std::size_t rows) : objects_(py::dtype("O"), py::array::ShapeContainer{static_cast<py::ssize_t>(rows)}), next_(static_cast<PyObject**>(objects_.mutable_data())) {}
    void append(const std::string& text) {
        if (last_ == nullptr || last_->first != text) last_ = &*known_.try_emplace(text, text).first;
        Py_XDECREF(*next_);
        *next_++ = py::str(last_->second).release().ptr();
    }
    py::array take() { return std::move(objects_); }

private:
    py::array objects_;
    PyObject** next_;
    std::unordered_map<std::string, py::str> known_;
    const std::pair<const std::string, py::str>* last_ = nullptr;
};

template <class Row, class Get>
py::array texts(const std::vector<Row>& rows, Get get) {
    Texts made(rows.size());
    for (const Row& row : rows) made.append(get(row));
    return made.take();
}

py::dict columns(const Trace& trace, const ReplayOptions& options, const std::vector<ResultRow>& rows) {
    const Manifest& manifest = trace.manifest();
    py::dict d;
    d["step"] = integers(rows, [&](const ResultRow& r) { return std::optional(manifest.steps[r.step_index].number); });
    d["tensor"] = texts(rows, [&](const ResultRow& r) -> const std::string& { return manifest.tensors[r.tensor_index].name; });
    d["role"] = texts(rows, [&](const ResultRow& r) -> const std::string& { return manifest.tensors[r.tensor_index].role; });
    d["scheme"] = texts(rows, [&](const ResultRow& r) -> const std::string& { return options.schemes[r.scheme_index].spec; });
    d["format"] = texts(rows, [&](const ResultRow& r) -> const std::string& { return r.format; });
    d["topology"] = texts(rows, [](const ResultRow& r) -> const std::string& { return r.topology; });
    d["workers"] = integers(rows, [&](const ResultRow&) { return std::optional<std::int64_t>(options.workers); });
    d["stage"] = texts(rows, [](const ResultRow& r) { return r.wire ? "wire" : "reduced"; });
#define APSCOPE_COUNT(name) d[#name] = integers(rows, [](const ResultRow& r) { return r.name; });
#define APSCOPE_REAL(name) d[#name] = reals(rows, [](const ResultRow& r) { return r.name; });
    APSCOPE_STATISTICS_COLUMNS(APSCOPE_COUNT, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_REAL
    d["wire_bits"] = integers(rows, [](const ResultRow& r) { return std::optional(r.wire_bits); });
    d["side_bits"] = integers(rows, [](const ResultRow& r) { return std::optional(r.side_bits); });
    d["scale_exponent"] = integers(rows, [](const ResultRow& r) { return r.scale_exponent; });
    py::array_t<bool> skipped(static_cast<py::ssize_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) skipped.mutable_data()[i] = rows[i].skipped;
    d["skipped"] = skipped;
    d["note"] = texts(rows, [](const ResultRow& r) -> const std::string& { return r.note; });
    return d;
}

// Columns step, tensor, role, kind, exponent and count of the bins that are not empty.
py::dict histogram_columns(const Trace& trace, const std::vector<ItemHistogram>& items) {
    struct Bin {
        const ItemHistogram* item;
        const char* kind;
        std::optional<int> exponent;
        std::uint64_t count;
    };
    const Manifest& manifest = trace.manifest();
    std::vector<Bin> bins;
    for (const ItemHistogram& item : items) {
        const auto add = [&](const char* kind, std::optional<int> exponent, std::uint64_t count) {
            if (count != 0) bins.push_back({&item, kind, exponent, count});
        };
        const ExponentHistogram& h = item.histogram;
        for (int e = ExponentHistogram::least; e <= ExponentHistogram::most; ++e) add("finite", e, h.count(e));
        add("zero", {}, h.zero);
        add("infinite", {}, h.infinite);
        add("nan", {}, h.nan);
    }
    const auto tensor = [&](const Bin& b) -> const TensorInfo& { return manifest.tensors[b.item->tensor_index]; };
    const auto whole = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
    py::dict d;
    d["step"] = plain_integers(bins, [&](const Bin& b) { return manifest.steps[b.item->step_index].number; });
    d["tensor"] = texts(bins, [&](const Bin& b) -> const std::string& { return tensor(b).name; });
    d["role"] = texts(bins, [&](const Bin& b) -> const std::string& { return tensor(b).role; });
    d["kind"] = texts(bins, [](const Bin& b) { return b.kind; });
    d["exponent"] = integers(bins, [](const Bin& b) { return std::optional<std::int64_t>(b.exponent); });
    d["count"] = plain_integers(bins, [&](const Bin& b) { return whole(b.count); });
    return d;
}

}  // namespace

void register_replay(py::module_& m) {
    m.def("replay", [](const Trace& trace, const std::vector<std::string>& schemes, const std::vector<std::string>& topologies,
                       std::vector<std::size_t> steps, std::vector<std::size_t> tensors, int workers, std::uint64_t seed,
                       int threads, std::size_t shard, std::size_t shards, int draws, const py::dict& states, const py::object& progress,
                       const py::object& device) {
        ReplayOptions options;
        for (const std::string& s : schemes) options.schemes.push_back(parse_scheme(s));
        for (const std::string& t : topologies) options.topologies.push_back(parse_topology(t));
        options.steps = std::move(steps);
        options.tensors = std::move(tensors);
        options.workers = workers;
        options.seed = seed;
        options.threads = threads;
        options.shard = shard;
        options.shards = shards;
        options.draws = draws;
        options.device = python::from_capsule(device);
        for (const auto& [key, state] : states) options.states[key.cast<std::string>()] = python::to_state(state.cast<py::dict>());
        options.progress = [&progress](std::size_t done, std::size_t total) {
            const py::gil_scoped_acquire acquire;
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            if (!progress.is_none()) progress(done, total);
        };
        ReplayResult result;
        {
            const py::gil_scoped_release release;
            result = replay(trace, options);
        }
        py::dict after;
        for (const auto& [key, state] : result.states) after[py::str(key)] = python::to_dict(state);
        return py::make_tuple(columns(trace, options, result.rows), histogram_columns(trace, result.histograms), after);
    }, py::arg("trace"), py::arg("schemes"), py::arg("topologies"), py::arg("steps"), py::arg("tensors"), py::arg("workers"),
       py::arg("seed"), py::arg("threads"), py::arg("shard"), py::arg("shards"), py::arg("draws"), py::arg("states"), py::arg("progress"),
       py::arg("device") = py::none());
}
