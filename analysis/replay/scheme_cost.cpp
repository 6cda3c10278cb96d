#include "analysis/replay/scheme_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "analysis/replay/item_rows.h"
#include "analysis/replay/tensor_rows.h"
#include "emulation/schemes/shared/buckets.h"

namespace apscope::detail {

namespace {

// Tensors are matrices, because some schemes compute factors. Their numbers of rows are just above
// a power of two, because transforms pad a row to the next power.
constexpr std::int64_t columns = 64;
// A scheme that is not streamed works in pieces of up to a megabyte, which stay in cache, so the
// growth of its memory shows only on larger tensors, of several pieces and of many.
constexpr std::int64_t small_rows = 129, more_rows = 257, several_rows = 513, many_rows = 2049;
constexpr std::array<int, 2> workers{2, 4};
constexpr std::int64_t steps = 2;  // the second step starts with the state after the first
constexpr int max_draws = 8;       // more draws cost proportionally more

// Random numbers of both signs with magnitudes from 2^-24 to 1.
std::vector<float> some_gradients(std::size_t n, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> x(n);
    for (float& v : x) {
        const std::uint64_t word = random();
        v = std::ldexp(static_cast<float>(static_cast<std::int32_t>(word)),
                       -31 - static_cast<int>(word >> 32) % 24);
    }
    return x;
}

struct Probe {
    std::size_t most = 0, state = 0;
    double seconds = 0.0;
};

using Run = std::function<void(std::int64_t step, std::span<const std::span<const float>> gradients,
                               State& state)>;

Probe probe(std::size_t n, int ranks, const Run& run) {
    std::vector<std::vector<float>> rows;
    for (int w = 0; w < ranks; ++w)
        rows.push_back(some_gradients(n, static_cast<std::uint64_t>(w)));
    const std::vector<std::span<const float>> gradients(rows.begin(), rows.end());
    Probe result;
    BufferPool pool;
    const UsesBuffers uses(pool);
    const auto begin = std::chrono::steady_clock::now();
    std::size_t with_state = 0;
    {
        State state;
        for (std::int64_t step = 0; step < steps; ++step) run(step, gradients, state);
        with_state = pool.used();
    }
    result.state = with_state - std::min(with_state, pool.used());
    result.most = pool.most_used();
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
}

// The bilinear function through four measurements: bytes[r][w] for rows[r] and workers[w]. The
// message of a shard, which is 1/W of a tensor, decreases with the workers; more workers count as
// no less memory.
Bytes through(std::array<std::array<double, 2>, 2> bytes, const std::array<std::int64_t, 2>& rows) {
    for (auto& of_rows : bytes) of_rows[1] = std::max(of_rows[1], of_rows[0]);
    const double n0 = static_cast<double>(rows[0] * columns),
                 dn = static_cast<double>((rows[1] - rows[0]) * columns);
    const double w0 = workers[0], dw = workers[1] - workers[0];
    const double mixed = (bytes[1][1] - bytes[1][0] - bytes[0][1] + bytes[0][0]) / (dn * dw);
    const double by_n = (bytes[1][0] - bytes[0][0]) / dn - mixed * w0,
                 by_w = (bytes[0][1] - bytes[0][0]) / dw - mixed * n0;
    return {bytes[0][0] - by_n * n0 - by_w * w0 - mixed * n0 * w0, by_n, by_w, mixed};
}

Run run_of(const ResolvedScheme& resolved, std::span<const Topology> topologies, bool reduces,
           int draws) {
    return [=, &scheme = resolved.parts()](std::int64_t number,
                                           std::span<const std::span<const float>> gradients,
                                           State& state) {
        ItemContext item;
        item.step_number = number;
        item.reduces = reduces;
        item.draws = draws;
        item.topologies = topologies;
        item.gradients = gradients;
        if (scheme.streams()) {
            const Decision decision = power_of_two(0);
            const Streamed streamed{&scheme, &decision, topologies};
            BlockBuffers buffers(item.workers());
            streamed_rows({&streamed, 1}, {}, item, buffers);
            return;
        }
        TrainingStep step;
        step.shape = {static_cast<std::int64_t>(gradients[0].size()) / columns, columns};
        step.number = number;
        step.index = static_cast<std::size_t>(number);
        step.workers = item.workers();
        step.key = item.key(0);
        step.loss = step.learning_rate = 1.0;
        step.weights = step.full_batch = gradients[0];
        // The bucket consists of this tensor only.
        std::optional<Bucket> bucket;
        if (scheme.bucket != 0)
            bucket = bucket_around(
                scheme, 0, 1, [&](std::size_t) { return std::optional(item.elements()); },
                gradients.size(),
                [&](std::size_t, std::size_t worker) { return gradients[worker]; },
                [](std::size_t) { return std::make_shared<ArrayTotals>(); });
        step.bucket = bucket ? &*bucket : nullptr;
        BlockBuffers buffers(item.workers());
        tensor_rows(scheme, step, state, item, buffers);
    };
}

}  // namespace

std::size_t Bytes::of(std::size_t elements, int workers) const {
    const auto n = static_cast<double>(elements), w = static_cast<double>(workers);
    return static_cast<std::size_t>(
        std::max(0.0, constant + an_element * n + a_worker * w + a_value * n * w));
}

SchemeCost cost_of(const ResolvedScheme& scheme, std::span<const Topology> topologies, bool reduces,
                   int draws, std::size_t largest) {
    constexpr double number = sizeof(double);
    SchemeCost cost;
    const SchemeParts& parts = scheme.parts();
    if (!parts.defined_as.empty()) {
        // The bytes of the rows and messages, and of copies of both in arrays of the caller.
        cost.state.a_value = parts.keeps_state() ? number : 0.0;
        cost.most = {0.0, number * 2.0 * static_cast<double>(topologies.size() + 1), 0.0,
                     number * (10.0 + draws) + 4.0 * cost.state.a_value};
        cost.seconds_a_value = 1e-7;
        return cost;
    }
    const bool grows = !parts.streams() && largest > static_cast<std::size_t>(many_rows * columns);
    const std::array<std::int64_t, 2> rows{grows ? several_rows : small_rows,
                                           grows ? many_rows : more_rows};
    const int tried = std::min(draws, max_draws);
    const Run run = run_of(scheme, topologies, reduces, tried);
    std::array<std::array<double, 2>, 2> most{}, state{};
    double seconds = 0.0, values = 0.0;
    for (const std::size_t r : {0, 1}) {
        for (const std::size_t w : {0, 1}) {
            const auto n = static_cast<std::size_t>(rows[r] * columns);
            // The probe runs in a new thread, so that buffers that a thread keeps from one tensor
            // to the next are measured, too.
            const Probe probed = std::async(std::launch::async, probe, n, workers[w], run).get();
            const std::size_t tables = parts.encoding.tables ? parts.encoding.tables(n) : 0;
            most[r][w] =
                static_cast<double>(probed.most - std::min(probed.most, tables)) * draws / tried;
            state[r][w] = static_cast<double>(probed.state);
            seconds += probed.seconds * draws / tried;
            values += static_cast<double>(steps) * static_cast<double>(n) * workers[w];
        }
    }
    cost.most = through(most, rows);
    cost.state = through(state, rows);
    cost.seconds_a_value = seconds / values;
    return cost;
}

}  // namespace apscope::detail
