// The exchange of all tensors of a training step.
#include <memory>
#include <stdexcept>
#include <utility>

#include "bindings/module/exchange_types.h"
#include "bindings/module/guarded.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/step_exchange.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

using Floats = py::array_t<float>;

std::span<const float> row_of(const Floats& a, py::ssize_t first, py::ssize_t count) {
    return {a.data() + first, static_cast<std::size_t>(count)};
}

// The rows of an array of shape (workers, elements), whose rows must each be contiguous in memory.
std::vector<std::span<const float>> rows_of(const Floats& a) {
    constexpr auto item = static_cast<py::ssize_t>(sizeof(float));
    if (a.ndim() != 2 || (a.shape(1) > 1 && a.strides(1) != item) || a.strides(0) % item != 0)
        throw py::value_error("gradients must have the shape (workers, elements), with the "
                              "elements of a row next to each other");
    std::vector<std::span<const float>> rows;
    for (py::ssize_t w = 0; w < a.shape(0); ++w)
        rows.push_back(row_of(a, w * (a.strides(0) / item), a.shape(1)));
    return rows;
}

std::vector<bool> run(StepExchange& exchange, std::int64_t number, std::size_t index,
                      const std::vector<Floats>& gradients, std::vector<Floats> out,
                      const std::vector<Floats>& weights, std::optional<double> loss,
                      std::optional<double> learning_rate, int threads) {
    StepGradients step;
    step.number = number;
    step.index = index;
    step.loss = loss;
    step.learning_rate = learning_rate;
    for (const Floats& a : gradients) step.gradients.push_back(rows_of(a));
    for (Floats& a : out) {
        if (!(a.flags() & py::array::c_style))
            throw py::value_error("the results must be contiguous arrays");
        step.out.push_back({a.mutable_data(), static_cast<std::size_t>(a.size())});
    }
    for (const Floats& a : weights) {
        if (!(a.flags() & py::array::c_style))
            throw py::value_error("the weights must be contiguous arrays");
        step.weights.push_back(row_of(a, 0, a.size()));
    }
    const py::gil_scoped_release release;
    return exchange.run(step, threads);
}

// A tensor's reduction as arguments of apscope.cuda's all-reduce: format, projection, format of
// sums and their rounding, whether they are exact, scale, whether the step is dropped.
py::tuple to_tuple(const ScaledReduction& r) {
    const FloatGrid& grid = r.encoder->grid;
    const Reduction& sums = r.encoder->reduction;
    return py::make_tuple(grid.format, grid.projection, sums.accumulate,
                          std::string(to_string(sums.projection.rounding)), sums.exact,
                          r.decision.scale, r.decision.skipped);
}

py::list choose(StepExchange& exchange, std::int64_t number, const std::vector<double>& amax,
                const std::vector<std::uint64_t>& nonfinite) {
    if (amax.size() != nonfinite.size())
        throw py::value_error("amax and nonfinite must have one number for each tensor");
    std::vector<AgreedStatistics> statistics(amax.size());
    for (std::size_t k = 0; k < amax.size(); ++k) {
        statistics[k].amax = amax[k];
        statistics[k].nonfinite = nonfinite[k];
    }
    py::list found;
    for (const ScaledReduction& r : exchange.choose(number, std::move(statistics)))
        found.append(to_tuple(r));
    return found;
}

// For every tensor: the key, the format and the projection, or None if sums are not encoded; then
// the scale of each row.
py::list choose_in_phases(const StepExchange& exchange, int phase, std::int64_t number,
                          const std::vector<std::vector<double>>& amax,
                          const std::vector<std::vector<std::uint64_t>>& nonfinite) {
    std::vector<std::vector<AgreedStatistics>> statistics(amax.size());
    for (std::size_t k = 0; k < amax.size(); ++k) {
        for (std::size_t row = 0; row < amax[k].size(); ++row) {
            AgreedStatistics& s = statistics[k].emplace_back();
            s.amax = amax[k][row];
            s.nonfinite = nonfinite.at(k).at(row);
        }
    }
    py::list found;
    for (const PhasedReduction& r : exchange.choose_in_phases(phase, number, statistics)) {
        const auto key = py::make_tuple(r.key.low, r.key.high);
        if (!r.scheme) {
            found.append(py::make_tuple(key, py::none(), py::none(), r.scales));
            continue;
        }
        const FloatGrid& grid = r.scheme->parts.encoding.float_encoder.value().grid;
        found.append(py::make_tuple(key, grid.format, grid.projection, r.scales));
    }
    return found;
}

}  // namespace

void bind_step_exchange(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.def(
        "fsdp_divisors",
        [](int workers) {
            const Divisors by = Division{Division::Place::fsdp}.of(workers);
            return std::pair(by.before, by.after);
        },
        py::arg("workers"), "FSDP2's divisors before and after an fp16 reduction.");
    python::Class<StepExchange>(m, "StepExchange",
                                "The gradients of all tensors of one step through a scheme.")
        .def(py::init([made](const std::string& spec, const std::vector<std::string>& names,
                             const std::vector<std::string>& roles,
                             const std::vector<std::vector<std::int64_t>>& shapes, int workers,
                             const std::string& topology, std::uint64_t seed, bool divide) {
                 std::vector<StepTensor> tensors;
                 for (std::size_t k = 0; k < names.size(); ++k)
                     tensors.push_back({names[k], roles.at(k), shapes.at(k)});
                 return StepExchange(parse_scheme(spec, made.get()), std::move(tensors), workers,
                                     parse_topology(topology), seed, divide);
             }),
             py::arg("spec"), py::arg("names"), py::arg("roles"), py::arg("shapes"),
             py::arg("workers"), py::arg("topology"), py::arg("seed"), py::arg("divide"))
        .def("run", &run, py::arg("number"), py::arg("index"), py::arg("gradients").noconvert(),
             py::arg("out").noconvert(), py::arg("weights").noconvert(), py::arg("loss"),
             py::arg("learning_rate"), py::arg("threads"),
             "Fills `out`; returns whether the scheme dropped each tensor's step.")
        .def("choose", &choose, py::arg("number"), py::arg("amax"), py::arg("nonfinite"),
             "The reductions of a step from the tensors' statistics; the memory advances.")
        .def_property_readonly("chooses_from_amax", &StepExchange::chooses_from_amax)
        .def("choose_in_phases", &choose_in_phases, py::arg("phase"), py::arg("number"),
             py::arg("amax"), py::arg("nonfinite"),
             "The encodings of a phase of a step from the statistics of every tensor's rows.")
        .def_property_readonly("chooses_in_phases", &StepExchange::chooses_in_phases)
        .def_property_readonly("needs", [](const StepExchange& e) { return e.needs(); })
        .def(
            "state",
            [](StepExchange& e) {
                py::dict all;
                for (auto& [name, state] : e.states()) {
                    NamedRows rows = state.rows();
                    if (!rows.empty()) all[py::str(name)] = to_dict(std::move(rows));
                }
                return all;
            },
            "The scheme's memory: arrays by name, by scheme and tensor.")
        .def(
            "set_state",
            [](StepExchange& e, const py::dict& all) {
                std::map<std::string, State> states;
                for (const auto& [name, rows] : all)
                    states.emplace(name.cast<std::string>(),
                                   State(to_named_rows(rows.cast<py::dict>())));
                e.states() = std::move(states);
            },
            py::arg("state"));
}
