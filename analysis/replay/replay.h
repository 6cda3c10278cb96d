// Replay: runs recorded gradients through schemes and topologies, in two passes.
//
// Pass 1 reads every selected (step, tensor, worker) once, for statistics and exponent histograms.
// Selection computes scales from them, scheme by scheme, in step order. Pass 2 processes items,
// that is (step, tensor) pairs, in any order: for every scheme and topology it encodes, reduces,
// decodes and compares. Schemes with memory of elements process a tensor through all steps in
// order. Either pass can be divided among machines: read_statistics() is the first pass for some
// pairs, and replay() takes its results. The number of items that run at once is bounded by the
// threads and by the items' memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/row_device.h"
#include "analysis/statistics/error_windows.h"
#include "analysis/statistics/exponent_histogram.h"
#include "analysis/statistics/result_row.h"
#include "analysis/trace/trace.h"
#include "emulation/allreduce/batch_noise.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct ReplayOptions {
    std::vector<std::size_t> steps;    // indices into the manifest's steps, ascending
    std::vector<std::size_t> tensors;  // indices into the manifest's tensors, ascending
    int workers = 0;                   // ranks 0..workers-1
    std::vector<Scheme> schemes;
    std::vector<Topology> topologies;
    std::uint64_t seed = 0;
    int threads = 0;  // 0: all processors of the process; the number of threads changes no bit
    // The replay has every `shards`-th item, beginning with item `shard`. The items are those of
    // work_list.h in an order that does not depend on the shard.
    std::size_t shard = 0, shards = 1;
    // The items to process, as positions in the list that work_costs() returns; by default all.
    std::optional<std::vector<std::size_t>> items;
    // The results of read_statistics() for the whole selection: pass 1 is left out, and no
    // histograms are returned.
    std::optional<std::vector<AgreedStatistics>> statistics;
    std::size_t memory = 0;  // bytes that tensors may take at once; 0: half of the machine's memory
    // The schemes' memory from an earlier replay, as in ReplayResult::states.
    std::map<std::string, State> states;
    // True: the schemes' memory is returned in ReplayResult::states. False: a tensor's memory is
    // freed after its last step.
    bool keeps_states = false;
    int draws = 1;  // K >= 3: moments without a closed form are estimated from K draws
    // True if errors are to be added up over consecutive steps, in ReplayResult::windows. Each
    // scheme then processes all steps of a tensor in order, and the rows of all steps stay in
    // memory until the end.
    bool persistence = false;
    RowDevice* device = nullptr;  // computes a part of pass 2; null: the CPU computes all of it
    // Receives the rows in order of step, tensor, scheme, stage and topology, many per call, while
    // the replay runs; the last call comes after everything was read. Any thread calls `rows`, one
    // at a time; `rows` may throw. If it is empty, the rows are returned in ReplayResult::rows.
    std::function<void(std::vector<ResultRow>)> rows;
    // Receives the number of values visited so far, by pass 1 and by every scheme, and their total.
    std::function<void(std::size_t done, std::size_t total)> progress;
};

struct ItemHistogram {
    std::size_t step_index, tensor_index;
    ExponentHistogram histogram;
};

// The number of noise blocks of a tensor; for a sample, that of the complete tensor.
inline std::int64_t noise_blocks_of(const TensorInfo& tensor) {
    return std::llround(static_cast<double>(noise_blocks_of(tensor.size())) * tensor.stands_for());
}

// The batch's noise, from the workers' gradients of a tensor at a step.
struct ItemNoise {
    std::size_t step_index, tensor_index;
    BatchNoise noise;
};

// The errors of a reduction of a tensor by a scheme, added up over a window of steps.
struct ItemWindow {
    std::size_t tensor_index, scheme_index;
    std::string topology;
    WindowSums sums;
};

struct ReplayResult {
    // In order of step, tensor, scheme, stage and topology; empty if ReplayOptions::rows receives
    // them.
    std::vector<ResultRow> rows;
    // By step and tensor; only for local traces with two or more workers.
    std::vector<ItemNoise> noise;
    // By first step, tensor, scheme, topology and length; only for traces whose noise is known.
    std::vector<ItemWindow> windows;
    std::vector<ItemHistogram> histograms;
    // The schemes' memory after the last step, if ReplayOptions::keeps_states. The key is the
    // scheme, or scheme and tensor if the scheme has memory of elements. Each branch of a policy
    // has its own key.
    std::map<std::string, State> states;
};

// Throws std::invalid_argument for options that the trace or the memory does not allow.
ReplayResult replay(const Trace& trace, ReplayOptions options);

// Throws the errors that replay() throws before it reads gradients, such as std::invalid_argument
// if the memory is too small for one item.
void check_memory(const Trace& trace, ReplayOptions options);

// The results of pass 1 for some (step, tensor) pairs of the selection.
struct SelectionStatistics {
    std::vector<AgreedStatistics> agreed;   // one per pair
    std::vector<ItemHistogram> histograms;  // one per pair in the shard
};
SelectionStatistics read_statistics(const Trace& trace, ReplayOptions options,
                                    const std::vector<std::size_t>& pairs);

// The work that a cluster divides: the items of the shard, and their costs.
struct WorkCost {
    std::optional<std::size_t> step;  // index into ReplayOptions::steps; none: all steps, in order
    std::size_t tensor;               // index into ReplayOptions::tensors
    std::size_t values;               // number of values that its schemes visit, as in progress
    double seconds;                   // on one thread of this machine
};
std::vector<WorkCost> work_costs(const Trace& trace, const ReplayOptions& options);

}  // namespace apscope::detail
