// Replays of small traces with a device, which is the host (host_queue.h), beside replays without
// one: every row must have the same bits.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "emulation/schemes/definition.h"
#include "tests/support/cuda_inputs.h"
#include "tests/support/host_queue.h"
#include "tests/support/result_numbers.h"
#include "tests/support/trace_files.h"

namespace apscope::detail::test {

inline const std::vector<const char*> all_topologies{
    "sequential",           "ring",      "tree",      "hierarchical:3", "sequential+kahan",
    "hierarchical:2+kahan", "butterfly", "two_phase", "reduce_scatter"};
inline constexpr std::uint64_t plenty = std::uint64_t{1} << 30;

inline ReplayOptions asked(const Trace& trace, const std::vector<const char*>& schemes,
                           int draws = 1) {
    ReplayOptions o;
    for (std::size_t s = 0; s < trace.manifest().steps.size(); ++s) o.steps.push_back(s);
    for (std::size_t k = 0; k < trace.manifest().tensors.size(); ++k) o.tensors.push_back(k);
    o.workers = trace.manifest().workers;
    for (const char* spec : schemes) o.schemes.push_back(parse_scheme(spec));
    for (const char* name : all_topologies) o.topologies.push_back(parse_topology(name));
    o.seed = 7;
    o.threads = 1;
    o.draws = draws;
    return o;
}

inline void expect_same_rows(const Trace& trace, ReplayOptions options, std::uint64_t memory,
                             std::size_t min_tasks = 1, Late late = Late::work) {
    const ReplayResult expected = replay(trace, options);
    CountedRows device(memory, late);
    options.device = &device;
    const ReplayResult got = replay(trace, options);
    EXPECT_GE(device.tasks(), min_tasks);
    ASSERT_EQ(got.rows.size(), expected.rows.size());
    std::size_t differing = 0;
    for (std::size_t i = 0; i < expected.rows.size(); ++i) {
        const ResultRow &a = expected.rows[i], &b = got.rows[i];
        if (numbers(a) == numbers(b) && a.topology == b.topology && a.format == b.format &&
            a.note == b.note)
            continue;
        if (++differing > 3) continue;
        ADD_FAILURE() << options.schemes[a.scheme_index].spec << " "
                      << (a.wire ? "wire" : a.topology) << ", tensor " << a.tensor_index
                      << ", step " << a.step_index << ": sum_error " << a.sum_error << " and "
                      << b.sum_error << ", expected bias " << a.expected_bias << " and "
                      << b.expected_bias << ", variance " << a.expected_variance << " and "
                      << b.expected_variance << " +- " << a.expected_variance_error << " and "
                      << b.expected_variance_error << ", max_ulp " << a.max_ulp << " and "
                      << b.max_ulp;
    }
    EXPECT_EQ(differing, 0u);
}

// Gradients over many binades, with zeros of both signs.
inline float many_binades(int w, std::size_t k, std::size_t i) {
    static const std::vector<float> numbers = random_floats(1 << 16, 9, 3);
    if (i % 41 == 0) return i % 2 == 0 ? 0.0f : -0.0f;
    return 0x1p-6f *
           numbers[(i * 31 + static_cast<std::size_t>(w) * 977 + k * 131) % numbers.size()];
}

// The same values, and between them the numbers at the edges of fp32's binades.
inline float with_specials(int w, std::size_t k, std::size_t i) {
    if (k == 1 && i % 7 == 3)
        return edge_inputs()[(i * 79 + static_cast<std::size_t>(w) * 4099) % edge_inputs().size()];
    if (k == 2) return -0.0f;
    return many_binades(w, k, i);
}

inline const std::vector<std::size_t> odd_sizes{2 * 4096 + 905, 4096 + 33, 17, 1, 3, 4096};

class DeviceReplays : public ::testing::Test {
protected:
    template <class Value>
    Trace trace(int workers, const std::vector<std::size_t>& sizes, const char* reduction,
                Value value, const char* stage = "local") {
        const std::filesystem::path path = folder_.path() / std::to_string(traces_++);
        const auto of_step = [&](int, int w, std::size_t k, std::size_t i) {
            return value(w, k, i);
        };
        write_trace(path, workers, 1, sizes, of_step, reduction, stage);
        return Trace::open(path);
    }
    TemporaryFolder folder_;
    int traces_ = 0;
};

}  // namespace apscope::detail::test
