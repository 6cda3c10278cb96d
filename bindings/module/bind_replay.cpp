// Replay: its rows are passed to Python as columns, many rows at a time.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <chrono>
#include <string>

#include "analysis/replay/replay.h"
#include "analysis/replay/selection.h"
#include "analysis/replay/tensor_rows.h"
#include "bindings/module/columns.h"
#include "bindings/module/exchange_types.h"
#include "bindings/module/guarded.h"
#include "bindings/module/row_device_capsule.h"
#include "emulation/schemes/definition.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

const std::string& name_of(const TensorInfo& t) { return t.name; }
const std::string& role_of(const TensorInfo& t) { return t.role; }

py::dict columns(const Trace& trace, const std::vector<Scheme>& schemes, int workers,
                 const std::vector<ResultRow>& rows) {
    const Manifest& manifest = trace.manifest();
    const python::Texts names(manifest.tensors, name_of), roles(manifest.tensors, role_of),
        specs(schemes, [](const Scheme& s) { return s.spec; });
    const python::Texts stages(std::array{"reduced", "wire"},
                               [](const char* stage) { return stage; });
    python::TextPool formats, topologies, notes;
    python::Columns<ResultRow> c(rows);
    c.integers("step", [&](const ResultRow& r) {
        return std::optional(manifest.steps[r.step_index].number);
    });
    c.texts("tensor", [&](const ResultRow& r) { return names[r.tensor_index]; });
    c.texts("role", [&](const ResultRow& r) { return roles[r.tensor_index]; });
    c.texts("scheme", [&](const ResultRow& r) { return specs[r.scheme_index]; });
    c.texts("format", [&](const ResultRow& r) { return formats(r.format); });
    c.texts("topology", [&](const ResultRow& r) { return topologies(r.topology); });
    c.integers("workers", [&](const ResultRow&) { return std::optional<std::int64_t>(workers); });
    c.texts("stage", [&](const ResultRow& r) { return stages[r.wire ? 1 : 0]; });
#define APSCOPE_COUNT(name, unit, section, pools) c.integers(#name, &ResultRow::name);
#define APSCOPE_REAL(name, unit, section, pools) c.plain<double>(#name, &ResultRow::name);
    APSCOPE_NUMBER_COLUMNS(APSCOPE_COUNT, APSCOPE_COUNT, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_REAL
    c.plain<bool>("skipped", [](const ResultRow& r) { return r.skipped; });
    c.texts("note", [&](const ResultRow& r) { return notes(r.note); });
    return c.take();
}

// The columns step, tensor, role, kind, exponent and count, with a row per bin that is not empty.
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
        for_each_bin(item.histogram,
                     [&](const char* kind, std::optional<int> exponent, std::uint64_t count) {
                         bins.push_back({&item, kind, exponent, count});
                     });
    }
    const python::Texts names(manifest.tensors, name_of), roles(manifest.tensors, role_of);
    python::TextPool kinds;
    python::Columns<Bin> c(bins);
    c.plain<std::int64_t>("step",
                          [&](const Bin& b) { return manifest.steps[b.item->step_index].number; });
    c.texts("tensor", [&](const Bin& b) { return names[b.item->tensor_index]; });
    c.texts("role", [&](const Bin& b) { return roles[b.item->tensor_index]; });
    c.texts("kind", [&](const Bin& b) { return kinds(b.kind); });
    c.integers("exponent", [](const Bin& b) { return std::optional<std::int64_t>(b.exponent); });
    c.plain<std::int64_t>("count", [](const Bin& b) { return static_cast<std::int64_t>(b.count); });
    return c.take();
}

// The noise of every step and tensor: a row with all workers, then one without each of them
// (docs/definitions.md, section 16).
py::dict noise_columns(const Trace& trace, int workers, const std::vector<ItemNoise>& items) {
    struct Line {
        const ItemNoise* item;
        std::optional<std::int64_t> without;
        double sum, log2;
    };
    const Manifest& manifest = trace.manifest();
    std::vector<Line> lines;
    for (const ItemNoise& item : items) {
        lines.push_back({&item, {}, item.noise.sum, 0.0});
        for (std::size_t w = 0; w < item.noise.sum_without.size(); ++w) {
            lines.push_back({&item, static_cast<std::int64_t>(w), item.noise.sum_without[w],
                             item.noise.log2_without[w]});
        }
    }
    const python::Texts names(manifest.tensors, name_of), roles(manifest.tensors, role_of);
    const auto elements = [&](const Line& l) {
        return static_cast<std::int64_t>(manifest.tensors[l.item->tensor_index].whole_size());
    };
    python::Columns<Line> c(lines);
    c.plain<std::int64_t>("step",
                          [&](const Line& l) { return manifest.steps[l.item->step_index].number; });
    c.texts("tensor", [&](const Line& l) { return names[l.item->tensor_index]; });
    c.texts("role", [&](const Line& l) { return roles[l.item->tensor_index]; });
    c.plain<std::int64_t>("workers",
                          [&](const Line&) { return static_cast<std::int64_t>(workers); });
    c.integers("without", [](const Line& l) { return l.without; });
    c.plain<std::int64_t>("elements", elements);
    c.plain<std::int64_t>("blocks", [&](const Line& l) {
        return noise_blocks_of(manifest.tensors[l.item->tensor_index]);
    });
    c.plain<std::int64_t>("noise_blocks", [](const Line& l) {
        return static_cast<std::int64_t>(l.item->noise.noisy_blocks);
    });
    c.plain<std::int64_t>("lone_blocks", [](const Line& l) {
        return static_cast<std::int64_t>(l.item->noise.lone_blocks);
    });
    c.plain<double>("sum_squared_reference",
                    [](const Line& l) { return l.item->noise.squared_reference; });
    c.plain<double>("sum_noise", [](const Line& l) { return l.sum; });
    c.plain<double>("sum_log2_ratio", [](const Line& l) { return l.log2; });
    return c.take();
}

// The errors of every reduction, summed over windows of steps, and the updates of optimizers
// (docs/definitions.md, section 16).
py::dict window_columns(const Trace& trace, const std::vector<Scheme>& schemes,
                        const std::vector<ItemWindow>& windows) {
    const python::Texts names(trace.manifest().tensors, name_of),
        specs(schemes, [](const Scheme& s) { return s.spec; });
    python::TextPool topologies;
    python::Columns<ItemWindow> c(windows);
    const auto integer = [&](const char* name, auto get) {
        c.plain<std::int64_t>(
            name, [=](const ItemWindow& w) { return static_cast<std::int64_t>(get(w.sums)); });
    };
    integer("step", [](const WindowSums& s) { return s.first; });
    c.texts("tensor", [&](const ItemWindow& w) { return names[w.tensor_index]; });
    c.texts("scheme", [&](const ItemWindow& w) { return specs[w.scheme_index]; });
    c.texts("topology", [&](const ItemWindow& w) { return topologies(w.topology); });
    integer("steps", [](const WindowSums& s) { return s.steps; });
    c.plain<double>("sum_squared_error", [](const ItemWindow& w) { return w.sums.squared_error; });
    c.plain<double>("sum_noise", [](const ItemWindow& w) { return w.sums.noise; });
    integer("noise_blocks", [](const WindowSums& s) { return s.noise_blocks; });
    c.plain<double>("sum_log2_error_over_noise",
                    [](const ItemWindow& w) { return w.sums.log2_over_noise; });
    const auto updates = [&](const std::string& before, auto of) {
        const auto number = [&](const char* name, auto get) {
            c.plain<double>((before + name).c_str(),
                            [=](const ItemWindow& w) { return get(of(w.sums)); });
        };
        number("product", [](const UpdateSums& s) { return s.product; });
        number("squared_reference", [](const UpdateSums& s) { return s.squared_reference; });
        number("squared_result", [](const UpdateSums& s) { return s.squared_result; });
    };
    updates("sum_", [](const WindowSums& s) { return s.sgd; });
    updates("adam_", [](const WindowSums& s) { return s.adam; });
    return c.take();
}

// Reports a replay's progress to Python, and ends the replay on Ctrl-C. Both happen at most every
// 20 ms, because a report takes longer than a small item.
auto telling(const py::object& progress) {
    return [&progress, next = std::chrono::steady_clock::time_point{}](std::size_t done,
                                                                       std::size_t total) mutable {
        const auto now = std::chrono::steady_clock::now();
        if (done < total && now < next) return;
        next = now + std::chrono::milliseconds(20);
        const py::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!progress.is_none()) progress(done, total);
    };
}

// The list of numeric columns: name, unit, section of docs/definitions.md, and the way of pooling.
py::tuple number_columns() {
    py::list list;
#define APSCOPE_COLUMN(name, unit, section, pools) \
    static_cast<void>(Pools::pools);               \
    list.append(py::make_tuple(#name, unit, section, #pools));
    APSCOPE_NUMBER_COLUMNS(APSCOPE_COLUMN, APSCOPE_COLUMN, APSCOPE_COLUMN)
#undef APSCOPE_COLUMN
    return list;
}

// An array of a structured dtype with the struct's fields; signatures name it ndarray.
using Agreed = py::array_t<AgreedStatistics, py::array::c_style>;

}  // namespace

void bind_replay(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.attr("NOT_MEASURABLE") = std::string(not_measurable);
    m.attr("AFTER_GAP") = std::string(after_gap);
    m.attr("COLUMNS") = number_columns();
    PYBIND11_NUMPY_DTYPE(AgreedStatistics, amax, nonfinite, elements, sum, sum_absolute,
                         sum_squares, largest_sum);
    python::Class<ReplayOptions>(m, "ReplayOptions")
        .def(py::init([made](const std::vector<std::string>& schemes,
                             const std::vector<std::string>& topologies,
                             std::vector<std::size_t> steps, std::vector<std::size_t> tensors,
                             int workers, std::uint64_t seed, std::size_t shard, std::size_t shards,
                             int draws, int threads, std::size_t memory, bool persistence) {
                 ReplayOptions options;
                 for (const std::string& s : schemes)
                     options.schemes.push_back(parse_scheme(s, made.get()));
                 for (const std::string& t : topologies)
                     options.topologies.push_back(parse_topology(t));
                 options.steps = std::move(steps);
                 options.tensors = std::move(tensors);
                 options.workers = workers;
                 options.seed = seed;
                 options.shard = shard;
                 options.shards = shards;
                 options.draws = draws;
                 options.threads = threads;
                 options.memory = memory;
                 options.persistence = persistence;
                 return options;
             }),
             py::arg("schemes"), py::arg("topologies"), py::arg("steps"), py::arg("tensors"),
             py::arg("workers"), py::arg("seed") = 0, py::arg("shard") = 0, py::arg("shards") = 1,
             py::arg("draws") = 1, py::arg("threads") = 0, py::arg("memory") = 0,
             py::arg("persistence") = false);
    m.def(
        "steps_between",
        [](const Trace& trace, std::optional<std::int64_t> first, std::optional<std::int64_t> end) {
            return steps_between(trace.manifest(), first, end);
        },
        py::arg("trace"), py::arg("first"), py::arg("end"));
    m.def(
        "steps_numbered",
        [](const Trace& trace, const std::vector<std::int64_t>& numbers) {
            return steps_numbered(trace.manifest(), numbers);
        },
        py::arg("trace"), py::arg("numbers"));
    m.def(
        "tensors_matching",
        [](const Trace& trace, const std::string& pattern) {
            return tensors_matching(trace.manifest(), pattern);
        },
        py::arg("trace"), py::arg("pattern"));
    m.def("check_shard", &check_shard, py::arg("shard"), py::arg("shards"));
    m.def(
        "work_costs",
        [](const Trace& trace, const ReplayOptions& options) {
            std::vector<WorkCost> found;
            {
                const py::gil_scoped_release release;
                found = work_costs(trace, options);
            }
            py::list costs;
            for (const WorkCost& cost : found)
                costs.append(py::make_tuple(cost.step, cost.tensor, cost.values, cost.seconds));
            return costs;
        },
        py::arg("trace"), py::arg("options"));
    m.def(
        "check_memory",
        [](const Trace& trace, const ReplayOptions& options) {
            const py::gil_scoped_release release;
            check_memory(trace, options);
        },
        py::arg("trace"), py::arg("options"));
    m.def(
        "read_statistics",
        [](const Trace& trace, ReplayOptions options, const std::vector<std::size_t>& pairs,
           const py::object& progress) {
            options.progress = telling(progress);
            SelectionStatistics found;
            {
                const py::gil_scoped_release release;
                found = read_statistics(trace, std::move(options), pairs);
            }
            const py::array agreed =
                Agreed(static_cast<py::ssize_t>(found.agreed.size()), found.agreed.data());
            return py::make_tuple(agreed, histogram_columns(trace, found.histograms));
        },
        py::arg("trace"), py::arg("options"), py::arg("pairs"), py::arg("progress") = py::none());
    m.def(
        "replay",
        [](const Trace& trace, ReplayOptions options, const py::function& rows,
           std::optional<std::vector<std::size_t>> items,
           const std::optional<py::array>& statistics, const py::dict& states, bool keep_states,
           const py::object& progress, const py::object& device) {
            options.items = std::move(items);
            if (statistics) {
                const auto agreed = statistics->cast<Agreed>();
                options.statistics.emplace(agreed.data(), agreed.data() + agreed.size());
            }
            options.keeps_states = keep_states;
            options.device = python::from_capsule(device);
            options.progress = telling(progress);
            for (const auto& [key, state] : states)
                options.states[key.cast<std::string>()] =
                    State(python::to_named_rows(state.cast<py::dict>()));
            const std::vector<Scheme> asked = options.schemes;
            const int workers = options.workers;
            options.rows = [&](std::vector<ResultRow> some) {
                const py::gil_scoped_acquire acquire;
                const py::dict table = columns(trace, asked, workers, some);
                some = {};
                rows(table);
            };
            ReplayResult result;
            {
                const py::gil_scoped_release release;
                result = replay(trace, std::move(options));
            }
            py::dict after;
            for (auto& [key, state] : result.states)
                after[py::str(key)] = python::to_dict(std::move(state).rows());
            return py::make_tuple(histogram_columns(trace, result.histograms),
                                  noise_columns(trace, workers, result.noise),
                                  window_columns(trace, asked, result.windows), after);
        },
        py::arg("trace"), py::arg("options"), py::arg("rows"), py::arg("items") = py::none(),
        py::arg("statistics") = py::none(), py::arg("states") = py::dict(),
        py::arg("keep_states") = false, py::arg("progress") = py::none(),
        py::arg("device") = py::none());
}
