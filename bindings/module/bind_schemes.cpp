// The scheme registry and the parser of scheme specs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/module/guarded.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/lists.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

void bind_schemes(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.def("scheme_definitions", [] {
        py::list rows;
        for (const SchemeDefinition& d : scheme_definitions()) {
            py::list keys;
            for (const SchemeKey& key : d.keys)
                keys.append(py::make_tuple(key.name, key.default_value, key.meaning));
            py::dict row;
            row["name"] = d.name;
            row["class_name"] = d.class_name;
            row["summary"] = d.summary;
            row["source"] = d.source;
            row["needs"] = d.needs;
            row["family"] = d.family;
            row["note"] = d.note;
            row["takes_format"] = d.takes_format;
            row["grid_key"] = d.grid_key;
            row["keys"] = keys;
            row["body"] = body_name(d.body);
            rows.append(row);
        }
        return rows;
    });
    m.def(
        "parse_scheme",
        [made](const std::string& spec) {
            const Scheme s = parse_scheme(spec, made.get());
            py::dict d;
            d["spec"] = s.spec;
            d["name"] = s.name;
            d["family"] = s.family;
            d["format"] = s.format;
            d["keys"] = s.keys;
            d["grid"] = s.parts.grid;
            const std::size_t open = s.spec.find('('), close = s.spec.rfind(')');
            d["body"] = open == std::string::npos ? "" : s.spec.substr(open + 1, close - open - 1);
            d["keeps_state"] = s.parts.keeps_state();
            d["needs"] = s.parts.needs;
            py::list branches;
            for (const PolicyBranch& branch : s.policy.branches)
                branches.append(py::make_tuple(branch.condition.text(), branch.scheme->spec));
            d["branches"] = branches;
            return d;
        },
        py::arg("spec"));
    m.def("main_schemes", &main_schemes);
    m.def("all_schemes", &all_schemes);
    m.attr("OWN_REDUCTIONS") = [] {  // the column `topology` of schemes with their own reduction
        py::tuple names(reductions::own.size());
        for (std::size_t i = 0; i < reductions::own.size(); ++i)
            names[i] = py::str(std::string(reductions::own[i]));
        return names;
    }();
    m.def("topologies", &topology_names);
    m.def("orders", &order_names);
    m.def(
        "parse_topology", [](const std::string& name) { return parse_topology(name).name(); },
        py::arg("name"));
    m.def(
        "is_order",
        [](const std::string& name) {
            try {
                return parse_topology(name).is_order();
            } catch (const std::invalid_argument&) {
                return true;  // a scheme's own reduction
            }
        },
        py::arg("topology"),
        "Whether a reduction sends what is summed exactly: two phases and hierarchies of levels "
        "send other messages.");
    m.def("canonical_topology", &canonical_topology, py::arg("text"));
}
