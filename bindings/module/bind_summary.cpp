// Summaries, pools, comparisons and modelled times of a table of results, whose columns are NumPy
// arrays.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analysis/cost/scheme_transport.h"
#include "analysis/statistics/error_windows.h"
#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/comparison.h"
#include "analysis/summary/losses.h"
#include "analysis/summary/modelled_time.h"
#include "analysis/summary/noise.h"
#include "analysis/summary/persistence.h"
#include "analysis/summary/pool.h"
#include "analysis/summary/summary.h"
#include "analysis/summary/zero_layers.h"
#include "bindings/module/guarded.h"
#include "bindings/module/network_links.h"
#include "bindings/module/summary_arrays.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

// The errors of every row of the table, by the names of the fields of Loss and of RowLosses.
py::dict losses(const ArrayTable& arrays) {
    const RowTable& table = arrays.table();
    const RowLosses of_row(table);
    const auto cosine = table.numbers[static_cast<std::size_t>(NumberColumn::cosine)];
    Figures f;
    const auto add = [&](const char* name, auto value) {
        f.add(name, table.rows, [&](std::size_t i) { return value(i, of_row[i]); });
    };
    add("overflow", [](std::size_t, const Loss& l) { return l.overflow; });
    add("reference", [](std::size_t, const Loss& l) { return l.reference; });
    add("absolute", [&](std::size_t i, const Loss&) { return of_row.absolute(i); });
    add("error", [](std::size_t, const Loss& l) { return l.error; });
    add("signed_error", [&](std::size_t i, const Loss&) { return of_row.signed_error(i); });
    add("noise", [](std::size_t, const Loss& l) { return l.noise; });
    add("log2_over_noise", [](std::size_t, const Loss& l) { return l.log2_over_noise; });
    add("noise_blocks", [](std::size_t, const Loss& l) { return l.noise_blocks; });
    add("over_noise", [](std::size_t, const Loss& l) { return l.over_noise(); });
    if (cosine.size() == table.rows)
        add("cosine", [&](std::size_t i, const Loss& l) { return of_row.cosine(i, l, cosine); });
    py::dict found = to_dict(f);
    found["skipped"] = to_flags(table.skipped);
    return found;
}

py::tuple losses_of_sums(const Numbers& error, const Numbers& reference, const Numbers& overflow) {
    const auto size = static_cast<std::size_t>(error.size());
    std::vector<double> nmse(size);
    std::vector<std::uint8_t> exists(size);
    for (std::size_t i = 0; i < size; ++i) {
        const Loss loss{error.data()[i], reference.data()[i], overflow.data()[i]};
        nmse[i] = loss.ranking_nmse();
        exists[i] = loss.exists();
    }
    return py::make_tuple(to_array(nmse), to_flags(exists));
}

// Pools rows by the columns `by`. Each is a pair of codes and their number, or "topology" for the
// topology for which a row counts.
py::tuple pool(const ArrayTable& arrays, const ChosenRows& rows, const py::list& by) {
    Groups groups(rows.size());
    for (const py::handle& column : by) {
        if (py::isinstance<py::str>(column)) {
            groups = groups.divided(rows.topologies.size(),
                                    [&](std::size_t i) { return rows.topology[i]; });
            continue;
        }
        const auto [codes, levels] = column.cast<std::pair<CodeArray, std::size_t>>();
        groups = divided(groups, rows, arrays.codes(codes, levels));
    }
    return py::make_tuple(to_array(groups.first), to_dict(pooled(arrays.table(), rows, groups)));
}

py::dict summary_dict(const Summary& s, const std::vector<std::size_t>& order) {
    py::dict out;
    std::vector<std::int64_t> worst;
    for (const auto& row : s.worst) worst.push_back(row ? std::int64_t{*row} : -1);
    out["first"] = to_array(s.first);
    out["topology"] = s.topology;
    out["format"] = s.format;
    out["figures"] = to_dict(s.figures);
    out["worst"] = to_array(worst);
    out["order"] = to_array(order);
    return out;
}

// The list of a summary's figures: name, columns, unit, section of docs/definitions.md, what the
// report's page shows of it, documentation, and whether it comes from a model of the whole step.
py::tuple summary_figures() {
    py::list list;
    const auto add = [&](const char* name, const std::vector<std::string>& columns,
                         const char* unit, int section, const char* page, const char* says,
                         bool modelled = false) {
        list.append(py::make_tuple(name, py::tuple(py::cast(columns)), unit, section, page, says,
                                   modelled));
    };
#define APSCOPE_FIGURE(name, unit, section, page, value, says) \
    static_cast<void>(OnPage::page);                           \
    add(#name, {#name}, unit, section, #page, says);
#define APSCOPE_WINDOWS(name, unit, section, page, says) \
    add(#name, window_columns(#name), unit, section, #page, says);
#define APSCOPE_PLACE(name, unit, section, page, says) \
    add(#name, {#name}, unit, section, #page, says);
#define APSCOPE_MODEL(name, unit, section, page, says) \
    add(#name, {#name}, unit, section, #page, says, true);
#include "analysis/summary/summary_figures.inc"
    return list;
}

Part part_named(const std::string& name) {
    if (const auto part = parse_part(name)) return *part;
    throw std::invalid_argument("by='" + name + "' is not one of layer, role, step");
}

py::dict summary(const ArrayTable& arrays, const ChosenRows& rows, double batch_factor,
                 const NoiseTable& noise, const WindowTable& windows,
                 const std::optional<std::string>& by,
                 const std::optional<std::string>& optimizer) {
    const RowTable& table = arrays.table();
    const std::optional<Part> part = by ? std::optional(part_named(*by)) : std::nullopt;
    const std::optional<Optimizer> asked = asked_optimizer(optimizer);
    Summary s;
    std::vector<std::size_t> rank;
    {
        const py::gil_scoped_release release;
        s = summarized(table, rows, part, batch_factor, &noise, &windows, asked);
        rank = ranked(table, s);
    }
    return summary_dict(s, rank);
}

py::dict by(const ArrayTable& arrays, const std::string& part,
            const std::optional<std::string>& topology, double batch_factor,
            const NoiseTable& noise, const WindowTable& windows,
            const std::optional<std::string>& optimizer) {
    const Breakdown found = broken_down(arrays.table(), part_named(part), topology, batch_factor,
                                        &noise, &windows, asked_optimizer(optimizer));
    return summary_dict(found.summary, found.order);
}

py::dict step_time(const ArrayTable& arrays, const TransportOf& transport, const py::dict& network,
                   const TimeOptions& given) {
    TimeOptions options = given;
    options.links = links_of(network);
    const StepTimes times = step_times(arrays.table(), options, transport);
    py::dict out;
    out["first"] = to_array(times.first);
    out["topology"] = times.topology;
    out["figures"] = to_dict(times.figures);
    return out;
}

py::dict pair_dict(const SchemePair& pair) {
    py::dict out;
    out["trace"] = pair.trace;
    out["topology_a"] = pair.topology_a;
    out["topology_b"] = pair.topology_b;
    return out;
}

// A row for all layers, then, on request, one per layer.
void add_compared(const SchemePair& pair, const RowTable& table, bool layers, py::dict& out) {
    const Compared rows = compared(pair, layers);
    py::list names;
    for (const auto& tensor : rows.tensor)
        names.append(tensor ? table.tensor.names[static_cast<std::size_t>(*tensor)]
                            : std::string("all"));
    out["layer"] = names;
    out["figures"] = to_dict(rows.figures);
}

// A pairing of the schemes of two tables, and the tables, which must outlive it.
struct TablePair {
    std::shared_ptr<ArrayTable> first, second;
    Pairing pairing;

    TablePair(std::shared_ptr<ArrayTable> one, std::shared_ptr<ArrayTable> other)
        : first(std::move(one)), second(std::move(other)),
          pairing(first->table(), second->table()) {}
    const std::string& tensor(std::int32_t code) const {
        return first->table().tensor.names[static_cast<std::size_t>(code)];
    }
};

using MaybeTopology = std::optional<std::string>;
// The spec of a scheme, and the topology to use for it, if the caller named one.
using NamedScheme = std::pair<std::string, MaybeTopology>;

template <class Each>
py::list for_pairs(const TablePair& c, const NamedScheme& a, const NamedScheme& b,
                   const MaybeTopology& topology, Each each) {
    py::list tables;
    for (const SchemePair& pair :
         c.pairing.pairs(a.first, b.first, {topology, a.second, b.second})) {
        py::dict out = pair_dict(pair);
        each(pair, out);
        tables.append(out);
    }
    return tables;
}

}  // namespace

void bind_summary(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.attr("SUMMARY_FIGURES") = summary_figures();
    m.attr("WINDOW_LENGTHS") = py::tuple(py::cast(window_lengths));
    python::Class<ChosenRows>(m, "ChosenRows", "Rows of a table, and the topology of each.")
        .def_property_readonly("row", [](const ChosenRows& c) { return to_array(c.row); })
        .def_property_readonly("topology", [](const ChosenRows& c) { return to_array(c.topology); })
        .def_readonly("topologies", &ChosenRows::topologies)
        .def("__len__", &ChosenRows::size);
    python::Class<ArrayTable, std::shared_ptr<ArrayTable>>(
        m, "RowTable", "Columns of a table of results: codes of texts, and numbers.")
        .def(py::init<const py::dict&, const IntegerArray&, const FlagArray&, const FlagArray&,
                      const py::dict&>(),
             py::arg("texts"), py::arg("step"), py::arg("wire"), py::arg("skipped"),
             py::arg("numbers"))
        .def("all_rows", [](const ArrayTable& t) { return all_rows(t.table()); })
        .def("whole_sums", [](const ArrayTable& t) { return whole_sums(t.table()); })
        .def("compared_rows", [](const ArrayTable& t) { return compared_rows(t.table()); })
        .def("headline_rows", [](const ArrayTable& t) { return headline_rows(t.table()); })
        .def(
            "pooled_rows",
            [](const ArrayTable& t, bool by_stage, bool by_topology) {
                return pooled_rows(t.table(), by_stage, by_topology);
            },
            py::arg("by_stage"), py::arg("by_topology"))
        .def(
            "is_replaced",
            [](const ArrayTable& t, const ChosenRows& rows) {
                for (std::size_t i = 0; i < rows.size(); ++i) {
                    if (rows.topology[i] != t.table().topology.of_row[rows.row[i]]) return true;
                }
                return false;
            },
            py::arg("rows"), "Whether a row counts for another topology than its own.")
        .def("losses", &losses)
        .def(
            "nonfinite_places",
            [](const ArrayTable& t) {
                const NonfinitePlaces places = nonfinite_places(t.table());
                return py::make_tuple(places.odd, places.all);
            },
            "Numbers of layers and steps with gradients that are NaN or infinite, and of all.")
        .def(
            "rows_of_zero_layers",
            [](const ArrayTable& t) { return to_flags(rows_of_zero_layers(t.table())); },
            "Which rows belong to a layer whose gradients are numerically zero.")
        .def("pool", &pool, py::arg("rows"), py::arg("by"))
        .def("summary", &summary, py::arg("rows"), py::arg("batch_factor"), py::arg("noise"),
             py::arg("windows"), py::arg("by") = py::none(), py::arg("optimizer") = py::none())
        .def("by", &by, py::arg("part"), py::arg("topology"), py::arg("batch_factor"),
             py::arg("noise"), py::arg("windows"), py::arg("optimizer") = py::none())
        .def(
            "step_time",
            [made](const ArrayTable& t, const py::dict& network, std::optional<double> elements,
                   std::optional<double> bucket_bytes, const std::string& side,
                   const std::string& side_collective, const std::string& baseline,
                   const std::string& not_measurable) {
                TimeOptions options;
                options.elements = elements;
                options.bucket_bytes = bucket_bytes;
                options.side = parse_side_messages(side);
                options.side_collective = parse_side_collective(side_collective);
                options.baseline = baseline;
                options.not_measurable = not_measurable;
                return step_time(t, transports(made.get()), network, options);
            },
            py::arg("network"), py::arg("elements"), py::arg("bucket_bytes"), py::arg("side"),
            py::arg("side_collective"), py::arg("baseline"), py::arg("not_measurable"));
    python::Class<TablePair>(m, "Pairing", "Compares schemes of one table, or of two.")
        .def(py::init<std::shared_ptr<ArrayTable>, std::shared_ptr<ArrayTable>>(), py::arg("first"),
             py::arg("second"))
        .def(
            "compare",
            [](const TablePair& c, const NamedScheme& a, const NamedScheme& b,
               const MaybeTopology& topology, bool layers) {
                return for_pairs(c, a, b, topology, [&](const SchemePair& pair, py::dict& out) {
                    add_compared(pair, c.first->table(), layers, out);
                });
            },
            py::arg("a"), py::arg("b"), py::arg("topology"), py::arg("layers"))
        .def(
            "against",
            [](const TablePair& c, const MaybeTopology& topology) {
                py::list rows;
                for (const Against& one : c.pairing.against(topology)) {
                    py::dict out = one.pair ? pair_dict(*one.pair) : py::dict();
                    if (one.pair) add_compared(*one.pair, c.first->table(), false, out);
                    out["trace"] = one.trace;
                    out["scheme"] = one.scheme;
                    out["held_by"] = name_of(one.held_by);
                    rows.append(out);
                }
                return rows;
            },
            py::arg("topology"))
        .def(
            "steps",
            [](const TablePair& c, const NamedScheme& a, const NamedScheme& b,
               const MaybeTopology& topology) {
                return for_pairs(c, a, b, topology, [&](const SchemePair& pair, py::dict& out) {
                    const ComparedSteps steps = compared_steps(pair, c.first->table());
                    out["step"] = to_array(steps.step);
                    out["figures"] = to_dict(steps.figures);
                });
            },
            py::arg("a"), py::arg("b"), py::arg("topology"))
        .def(
            "cells",
            [](const TablePair& c, const NamedScheme& a, const NamedScheme& b,
               const MaybeTopology& topology) {
                return for_pairs(c, a, b, topology, [&](const SchemePair& pair, py::dict& out) {
                    py::list names;
                    std::vector<std::int64_t> steps;
                    for (const SchemePair::Place& place : pair.places) {
                        names.append(c.tensor(place.tensor));
                        steps.push_back(
                            c.first->table().steps[static_cast<std::size_t>(place.step)]);
                    }
                    out["layer"] = names;
                    out["step"] = to_array(steps);
                    out["figures"] = to_dict(compared_cells(pair));
                });
            },
            py::arg("a"), py::arg("b"), py::arg("topology"));
    m.def(
        "named_side",
        [](const std::string& text) -> NamedScheme {
            const NamedSide named = named_side(text);
            return {std::string(named.scheme), MaybeTopology(named.reduction)};
        },
        py::arg("text"), "SPEC@REDUCTION as the spec and the reduction; None without one.");
    m.def("is_own_reduction", &is_own_reduction, py::arg("topology"));
    m.def(
        "headline_topology",
        [](const std::vector<std::string>& in_order) { return headline_topology(in_order); },
        py::arg("in_order"));
    m.def(
        "is_one_number",
        [](const Numbers& bits, const IntegerArray& codes, std::size_t count) {
            std::vector<SideBits> sums(count);
            for (py::ssize_t i = 0; i < bits.size(); ++i)
                sums.at(static_cast<std::size_t>(codes.data()[i])).add(bits.data()[i]);
            std::vector<std::uint8_t> flags;
            for (const SideBits& one : sums) flags.push_back(one.is_one_number());
            return to_flags(flags);
        },
        py::arg("bits"), py::arg("codes"), py::arg("count"),
        "Which groups' side information is one number per tensor, of any size.");
    m.def(
        "numerically_zero",
        [](const Numbers& reference, const Numbers& noise, const Numbers& elements,
           const IntegerArray& layer, const IntegerArray& step) {
            std::vector<LayerAtStep> places;
            for (py::ssize_t i = 0; i < reference.size(); ++i)
                places.push_back({reference.data()[i], noise.data()[i], elements.data()[i],
                                  static_cast<std::size_t>(layer.data()[i]),
                                  static_cast<std::size_t>(step.data()[i])});
            return to_flags(numerically_zero(places));
        },
        py::arg("reference"), py::arg("noise"), py::arg("elements"), py::arg("layer"),
        py::arg("step"),
        "Which layers of one trace, numbered from 0, are numerically zero, from sums per step.");
    m.def("losses_of_sums", &losses_of_sums, py::arg("error"), py::arg("reference"),
          py::arg("overflow"));
    m.def(
        "part_seconds",
        [made](const std::vector<std::tuple<double, double, double, double, double, std::string,
                                            std::string>>& parts,
               const std::string& spec, int workers, const py::dict& network,
               const std::string& side,
               const std::string& side_collective) -> std::optional<double> {
            std::vector<TimedPart> timed;
            for (const auto& [values, payload, agreed, travelling, buckets, reduction, grid] :
                 parts)
                timed.push_back({values, payload, agreed, travelling, buckets, reduction, grid});
            const auto time =
                time_of(timed, spec, workers, transports(made.get()), links_of(network),
                        parse_side_messages(side), parse_collective(side_collective));
            return time ? std::optional(time->seconds) : std::nullopt;
        },
        py::arg("parts"), py::arg("scheme"), py::arg("workers"), py::arg("network"),
        py::arg("side"), py::arg("side_collective"));
}
