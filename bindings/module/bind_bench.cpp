// apscope bench: times of every kernel and its reference.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "analysis/bench/bench.h"
#include "bindings/module/guarded.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

void bind_bench(apscope::python::Module& m) {
    m.def(
        "bench",
        [](std::size_t l2_elements, std::size_t dram_elements, std::size_t matrix, int threads,
           int rounds, double visit_seconds, const std::string& only, const py::object& progress) {
            std::vector<BenchTimes> times;
            {
                const py::gil_scoped_release release;
                times = run_bench(bench_jobs({l2_elements, dram_elements, matrix, threads}, only),
                                  rounds, visit_seconds,
                                  [&progress](std::size_t done, std::size_t total) {
                                      const py::gil_scoped_acquire acquire;
                                      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
                                      if (!progress.is_none()) progress(done, total);
                                  });
            }
            py::list rows;
            for (const BenchTimes& t : times) {
                py::dict row;
                row["name"] = t.job.name;
                row["where"] = t.job.where;
                row["floor"] = t.job.floor;
                row["threads"] = t.job.threads;
                row["elements"] = t.job.elements;
                row["bytes"] = t.job.bytes;
                row["operations"] = t.job.operations;
                row["seconds"] = t.seconds;
                rows.append(row);
            }
            return rows;
        },
        py::arg("l2_elements"), py::arg("dram_elements"), py::arg("matrix"), py::arg("threads"),
        py::arg("rounds"), py::arg("visit_seconds"), py::arg("only"), py::arg("progress"));
}
