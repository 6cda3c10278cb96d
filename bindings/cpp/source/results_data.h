// The data of Results: the rows of a replay, and the texts to which the rows refer by index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/statistics/result_row.h"
#include "analysis/summary/noise.h"
#include "analysis/summary/persistence.h"
#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/apscope/replay.h"

namespace apscope {

struct Results::Data {
    std::string trace;
    int workers = 0;
    std::vector<std::int64_t> step_numbers;        // numbers of all steps of the trace
    std::vector<std::string> tensor_names, roles;  // names and roles of all tensors of the trace
    std::vector<std::size_t> steps, tensors;       // indices of the replayed steps and tensors
    std::vector<std::string> schemes, families, topologies;
    std::vector<detail::ResultRow> rows;
    detail::NoiseTable noise;
    detail::WindowTable windows;

    // Facts that only files of results contain.
    std::vector<detail::ItemHistogram> histograms;
    detail::Manifest manifest;  // of the trace
    std::string hash,           // SHA-256 of the manifest's bytes
        source;                 // the trace's path as it was opened
    ReplayOptions options;      // without `progress`
};

}  // namespace apscope
