// Binds the function that runs one exchange (a scheme's messages and their sum) on NumPy arrays,
// and schemes whose parts are Python functions.
#include <memory>

#include "bindings/module/exchange_types.h"
#include "bindings/module/guarded.h"
#include "emulation/schemes/defined_scheme.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/two_phase.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

// A Python function that C++ objects own; any thread may destroy the last owner.
using Function = std::shared_ptr<py::object>;
Function keep(py::object f) {
    return {new py::object(std::move(f)), [](py::object* held) {
                const py::gil_scoped_acquire acquire;
                delete held;
            }};
}

// Calls a Python part with the state as a dict of arrays, stores the changed dict as the state, and
// returns the part's result.
template <class... Rest>
py::object call(const Function& f, const TrainingStep& step, State& state, Rest&&... rest) {
    const py::dict d = to_dict(state.rows());
    py::object made = (*f)(step, d, std::forward<Rest>(rest)...);
    state = State(to_named_rows(d));
    return made;
}

Array values_of(const std::vector<Message>& sent) {
    Rows values;
    for (const Message& m : sent) values.push_back(m.values);
    return to_array(values);
}

Rows rows_of(std::span<const RowReader> readers) {
    Rows rows;
    for (const RowReader& reader : readers) {
        const std::span<const double> row = reader.read(0, reader.size);
        rows.emplace_back(row.begin(), row.end());
    }
    return rows;
}

// Converts functions of Python to the parts of a scheme.
DefinedParts parts_of(const py::dict& functions) {
    const auto part = [&](const char* name) -> Function {
        return functions.contains(name) ? keep(functions[name]) : nullptr;
    };
    DefinedParts parts;
    if (const Function f = part("select")) {
        parts.select = [f](const Selection& s) {
            const py::gil_scoped_acquire acquire;
            return Parameters::of_rows(to_named_rows(
                call(f, s.step, s.state, to_array(rows_of(s.rows))).cast<py::dict>()));
        };
    }
    if (const Function f = part("compensate")) {
        parts.compensate = [f](const TrainingStep& step, State& state, Rows& rows) {
            const py::gil_scoped_acquire acquire;
            rows = to_rows(call(f, step, state, to_array(rows)).cast<Array>(), rows.size(),
                           "compensate");
        };
    }
    if (const Function f = part("update")) {
        parts.update = [f](const TrainingStep& step, State& state, const Exchange& e) {
            const py::gil_scoped_acquire acquire;
            call(f, step, state, to_array(e.intended), values_of(e.sent),
                 e.reduced.empty() ? Array(0) : to_array(e.reduced[0]));
        };
    }
    if (const Function f = part("forward")) {
        parts.forward = [f](const TrainingStep& step, const State& state, const Rows& rows,
                            Rows& x) {
            const py::gil_scoped_acquire acquire;
            x = to_rows((*f)(step, to_dict(state.rows()), to_array(rows)).cast<Array>(),
                        rows.size(), "forward");
        };
    }
    if (const Function f = part("inverse")) {
        parts.inverse = [f](const TrainingStep& step, const State& state,
                            std::span<Row* const> rows) {
            const py::gil_scoped_acquire acquire;
            const py::dict d = to_dict(state.rows());
            for (Row* row : rows) *row = to_row((*f)(step, d, to_array(*row)).cast<Array>());
        };
    }
    if (const Function f = part("encode")) {
        parts.encode = [f](const RowPiece& p, Message& m) {
            const py::gil_scoped_acquire acquire;
            py::object made =
                (*f)(p.step, to_dict(spread(p.theta, p.x.size())), to_array(p.x), p.worker);
            if (py::isinstance<py::tuple>(made)) {
                const auto pair = made.cast<py::tuple>();
                m.values = to_row(pair[0].cast<Array>());
                const auto payload = pair[1].cast<std::string>();
                m.payload.assign(payload.begin(), payload.end());
                m.payload_bits = 8 * payload.size();
            } else {
                m.values = to_row(made.cast<Array>());
            }
        };
    }
    if (const Function f = part("reduce")) {
        parts.reduce = [f](const SentPieces& s, Row& sum) {
            const py::gil_scoped_acquire acquire;
            sum = to_row(call(f, s.step, s.state, to_dict(spread(s.theta, s.place.size)),
                              values_of(s.messages))
                             .cast<Array>());
        };
    }
    return parts;
}

py::dict run_exchange(const MadeSchemes& made, const std::string& spec,
                      const py::array_t<float, py::array::c_style>& x, const TrainingStep& given,
                      const py::dict& earlier, const std::string& topology,
                      const py::object& weights, const py::object& full_batch) {
    using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
    const Topology order = parse_topology(topology);
    const auto scheme =
        reduced_by(order, std::make_shared<const Scheme>(parse_scheme(spec, &made)));
    const SchemeParts& parts = scheme->own_parts();
    TrainingStep step = given;
    step.workers = static_cast<int>(x.shape(0));
    Floats w, b;
    if (!weights.is_none()) {
        w = weights.cast<Floats>();
        step.weights = {w.data(), static_cast<std::size_t>(w.size())};
    }
    if (!full_batch.is_none()) {
        b = full_batch.cast<Floats>();
        step.full_batch = {b.data(), static_cast<std::size_t>(b.size())};
    }
    std::vector<std::span<const float>> rows;
    const auto n = static_cast<std::size_t>(x.shape(1));
    for (py::ssize_t i = 0; i < x.shape(0); ++i)
        rows.emplace_back(x.data() + static_cast<std::size_t>(i) * n, n);
    State state(to_named_rows(earlier));
    Exchange e;
    {
        const py::gil_scoped_release release;
        e = exchange(parts, step, state, rows, std::span(&order, 1));
    }
    py::dict d;
    Rows values, bias, variance;
    py::list payload, payload_bits, side_bits;
    for (Message& m : e.sent) {
        payload.append(
            py::bytes(reinterpret_cast<const char*>(m.payload.data()), m.payload.size()));
        payload_bits.append(m.payload_bits);
        side_bits.append(m.side_bits);
        if (!m.variance.empty()) {
            bias.push_back(std::move(m.bias));
            variance.push_back(std::move(m.variance));
        }
        values.push_back(std::move(m.values));
    }
    d["intended"] = to_array(e.intended);
    d["sent"] = to_array(values);
    d["bias"] = bias.size() == values.size() ? py::object(to_array(bias)) : py::none();
    d["variance"] = variance.size() == values.size() ? py::object(to_array(variance)) : py::none();
    d["reduced"] = to_array(e.reduced.at(0));
    d["reduction"] = parts.encoding.crosses_topologies() ? order.name() : parts.topology;
    d["payload"] = payload;
    d["payload_bits"] = payload_bits;
    d["side_bits"] = side_bits;
    d["scale_exponent"] = e.scale_exponent;
    d["skipped"] = e.skipped;
    d["draws"] = parts.draws();
    d["state"] = to_dict(std::move(state).rows());
    return d;
}

}  // namespace

void bind_exchange(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    python::Class<TrainingStep>(m, "TrainingStep")
        .def(py::init([](const std::string& tensor, const std::string& role,
                         std::vector<std::int64_t> shape, std::int64_t number, std::size_t index,
                         std::uint64_t seed, double loss, double learning_rate) {
                 TrainingStep step;
                 step.shape = std::move(shape);
                 step.number = number;
                 step.index = index;
                 step.key = replay_key(seed, tensor, number);
                 step.loss = loss;
                 step.learning_rate = learning_rate;
                 step.packs = true;
                 step.tensor = tensor;
                 step.role = role;
                 return step;
             }),
             py::arg("tensor"), py::arg("role"), py::arg("shape"), py::arg("number"),
             py::arg("index"), py::arg("seed"), py::arg("loss"), py::arg("learning_rate"))
        .def_readonly("tensor", &TrainingStep::tensor)
        .def_readonly("role", &TrainingStep::role)
        .def_readonly("shape", &TrainingStep::shape)
        .def_readonly("number", &TrainingStep::number)
        .def_readonly("index", &TrainingStep::index)
        .def_readonly("workers", &TrainingStep::workers)
        .def_property_readonly("senders", &TrainingStep::senders)
        .def_readonly("loss", &TrainingStep::loss)
        .def_readonly("learning_rate", &TrainingStep::learning_rate)
        .def(
            "random",
            [](const TrainingStep& s, int worker, std::size_t count, int bits, std::uint32_t hop) {
                if (worker < 0)
                    throw std::invalid_argument("worker=" + std::to_string(worker) +
                                                " must be at least 0");
                const std::vector<std::uint64_t> words =
                    random_words(s, static_cast<std::size_t>(worker), count, bits, hop);
                return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(count), words.data());
            },
            py::arg("worker"), py::arg("count"), py::arg("bits") = 32, py::arg("hop") = 0,
            "Random integers of `bits` bits for the elements 0..count-1 of a worker, the same for "
            "every call.");

    m.def(
        "exchange",
        [made](const std::string& spec, const py::array_t<float, py::array::c_style>& x,
               const TrainingStep& step, const py::dict& state, const std::string& topology,
               const py::object& weights, const py::object& full_batch) {
            return run_exchange(*made, spec, x, step, state, topology, weights, full_batch);
        },
        py::arg("scheme"), py::arg("x"), py::arg("step"), py::arg("state"), py::arg("topology"),
        py::arg("weights"), py::arg("full_batch"));

    m.def(
        "make_scheme",
        [made](const std::string& name, const std::string& base, const py::dict& parts,
               std::optional<bool> keeps_state, bool compares_intended, int bits,
               std::uint64_t side_bits, const std::string& grid) {
            DefinedParts own = parts_of(parts);
            own.bits = bits;
            own.side_bits = side_bits;
            own.keeps_state = keeps_state;
            own.compares_intended = compares_intended;
            own.grid = grid;
            made->add(define_scheme(name, parse_scheme(base, made.get()), std::move(own)));
        },
        py::arg("name"), py::arg("base"), py::arg("parts"), py::arg("keeps_state"),
        py::arg("compares_intended"), py::arg("bits"), py::arg("side_bits"), py::arg("grid"));
}
