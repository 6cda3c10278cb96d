// Schemes allocate the predicted memory: every scheme of the registry, on a larger tensor and with
// more workers than in the trial runs of the prediction, at two steps.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <random>

#include "analysis/replay/item_rows.h"
#include "analysis/replay/scheme_cost.h"
#include "analysis/replay/tensor_rows.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/two_phase.h"
#include "emulation/schemes/two_phase_bucket.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

constexpr std::size_t columns = 96;
constexpr int workers = 5;

struct Found {
    std::size_t most = 0, state = 0;
};

// The bucket of a tensor that lies between two equal ones.
Bucket bucket_of_three(const SchemeParts& scheme, const std::vector<std::vector<float>>& rows,
                       const std::vector<std::vector<float>>& others) {
    const auto row = [&](std::size_t k, std::size_t w) -> std::span<const float> {
        return k == 1 ? rows[w] : others[w];
    };
    return bucket_around(
        scheme, 1, 3, [&](std::size_t k) { return std::optional(row(k, 0).size()); }, workers, row,
        [](std::size_t) { return std::make_shared<ArrayTotals>(); });
}

// `beside` is the length of each of two other tensors in the bucket, if the scheme's blocks cross
// tensors.
Found allocated(const SchemeParts& scheme, std::span<const Topology> topologies, int draws,
                std::size_t n, std::size_t beside) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> rows(workers, std::vector<float>(n)),
        others(workers, std::vector<float>(beside, 0.5f));
    for (auto& row : rows) {
        for (float& v : row) v = normal(random);
    }
    const std::vector<std::span<const float>> gradients(rows.begin(), rows.end());
    std::optional<Bucket> bucket;
    if (scheme.bucket != 0) bucket = bucket_of_three(scheme, rows, others);
    BufferPool pool;
    const UsesBuffers uses(pool);
    std::size_t with_state = 0;
    {
        State state;
        for (int number = 0; number < 2; ++number) {
            ItemContext item;
            item.tensor = "x";
            item.step_number = number;
            item.divide = true;
            item.seed = 1;
            item.draws = draws;
            item.topologies = topologies;
            item.gradients = gradients;
            TrainingStep step;
            step.shape = {static_cast<std::int64_t>(n / columns),
                          static_cast<std::int64_t>(columns)};
            step.number = number;
            step.index = static_cast<std::size_t>(number);
            step.workers = workers;
            step.bucket = bucket ? &*bucket : nullptr;
            step.key = item.key(0);
            BlockBuffers buffers(item.workers());
            step.loss = step.learning_rate = 1.0;
            step.weights = step.full_batch = gradients[0];
            tensor_rows(scheme, step, state, item, buffers);
        }
        with_state = pool.used();
    }
    return {pool.most_used(), with_state - std::min(with_state, pool.used())};
}

std::vector<std::string> specs() {
    std::vector<std::string> all{"error_feedback(sign)", "error_feedback(top_k)",
                                 "error_feedback(zipml)", "error_feedback(powersgd)",
                                 "residual(sign)"};
    for (const SchemeDefinition& d : scheme_definitions()) {
        if (d.body == SchemeDefinition::Body::none)
            all.push_back(std::string(d.name) + (d.takes_format ? ":e4m3" : ""));
    }
    return all;
}

TEST(SchemeCost, IsWhatSchemesAllocate) {
    const std::vector<Topology> topologies{parse_topology("ring"), parse_topology("tree")};
    int seen = 0;
    for (const std::string& spec : specs()) {
        const Scheme scheme = parse_scheme(spec);
        const ResolvedScheme resolved{kept_by_caller(scheme), 0, spec, {}};
        if (resolved.streams()) continue;
        const SchemeParts& parts = resolved.parts();
        ++seen;
        for (const auto& [draws, n] :
             {std::pair{1, 300 * columns}, std::pair{3, 307 * columns},
              std::pair{1, 2000 * columns}, std::pair{1, 2053 * columns}}) {
            const SchemeCost cost = cost_of(resolved, topologies, true, draws, n);
            const Found found =
                std::async(std::launch::async, allocated, parts, topologies, draws, n, 0).get();
            const auto least = [](std::size_t bytes) { return static_cast<double>(bytes); };
            const std::size_t tables = parts.encoding.tables ? parts.encoding.tables(n) : 0,
                              most = cost.most.of(n, workers) + tables;
            const std::string what =
                spec + ", draws " + std::to_string(draws) + ", elements " + std::to_string(n);
            EXPECT_LE(least(found.most), 1.1 * least(most) + 100'000) << what;
            EXPECT_GE(2.1 * least(found.most) + 100'000, least(most)) << what;
            EXPECT_LE(least(found.state), 1.1 * least(cost.state.of(n, workers)) + 1000) << what;
            EXPECT_GE(2.1 * least(found.state) + 5000, least(cost.state.of(n, workers))) << what;
            EXPECT_GT(cost.seconds_a_value, 0.0) << what;
        }
    }
    EXPECT_GT(seen, 15);
}

// If the sums of a bucket's shards are encoded together, even a small tensor needs the memory of
// all of them.
TEST(SchemeCost, BlocksThatCrossTensorsAreCounted) {
    for (const std::string topology : {"ring", "two_phase", "two_phase,phase2=(top_k)"}) {
        for (const std::string spec :
             {"mx:bucket=25MB", "nvfp4:bucket=25MB", "aps:e4m3,unit=16,bucket=25MB",
              "nvfp4:rounding=ties_to_even,tensor_scale=false,bucket=25MB"}) {
            const Scheme scheme = parse_scheme(spec);
            const auto reduced = reduced_by(parse_topology(topology), kept_by_caller(scheme));
            const SchemeParts& parts = reduced->parts;
            const bool nvfp4 = spec.starts_with("nvfp4:bucket");
            EXPECT_EQ(parts.whole_shards, topology == "two_phase" ? nvfp4 : topology != "ring");
            const std::vector<Topology> topologies{parse_topology("ring")};
            for (const auto& [n, beside] :
                 {std::pair{300 * columns, 0 * columns}, std::pair{10 * columns, 2000 * columns},
                  std::pair{2000 * columns, 300 * columns}}) {
                std::vector<std::vector<float>> of_tensor(workers, std::vector<float>(n)),
                    others(workers, std::vector<float>(beside));
                const std::size_t at_once =
                    parts.whole_shards
                        ? elements_of_shards(bucket_of_three(parts, of_tensor, others), n, workers)
                        : n;
                EXPECT_EQ(at_once > n, parts.whole_shards && beside != 0);
                const Found found =
                    std::async(std::launch::async, allocated, parts, topologies, 1, n, beside)
                        .get();
                const std::size_t most =
                    cost_of({reduced, 0, spec, {}}, topologies, true, 1, n + 2 * beside)
                        .most.of(at_once, workers);
                const auto bytes = static_cast<double>(found.most),
                           told = static_cast<double>(most);
                const std::string what = spec + " " + topology + ", elements " + std::to_string(n);
                EXPECT_LE(bytes, 1.1 * told + 100'000) << what;
                EXPECT_GE(2.5 * bytes + 100'000, told) << what;  // told: the bucket as one tensor
            }
        }
    }
}

TEST(SchemeCost, StreamedSchemesTakeSomeBlocks) {
    const Scheme scheme = parse_scheme("aps:e4m3");
    const ResolvedScheme resolved{kept_by_caller(scheme), 0, scheme.spec, {}};
    const SchemeCost cost = cost_of(resolved, {}, true, 1, 1 << 20);
    EXPECT_GT(cost.most.of(1'000'000, 8), 8 * 4096 * sizeof(float));
    EXPECT_LT(cost.most.of(1'000'000'000, 8), std::size_t{1} << 21);
    EXPECT_EQ(cost.state.of(1'000'000, 8), 0u);
}

// In two phases, the sum of complete rows is stored, and of messages only a piece.
TEST(SchemeCost, MessagesOfTwoPhasesTakeSomeBlocks) {
    for (const char* spec : {"mx", "nvfp4", "qsgd", "aps:e4m3fn,unit=32"}) {
        const auto scheme = reduced_by(parse_topology("two_phase"),
                                       std::make_shared<const Scheme>(parse_scheme(spec)));
        constexpr std::size_t n = 20'000 * columns, messages = workers * n * sizeof(double);
        const auto found =
            static_cast<double>(std::async(std::launch::async, allocated, scheme->parts,
                                           std::span<const Topology>(), 1, n, 0)
                                    .get()
                                    .most);
        const auto told =
            static_cast<double>(cost_of({scheme, 0, spec, {}}, {}, true, 1, n).most.of(n, workers));
        EXPECT_LT(found, messages) << spec;
        EXPECT_LE(found, 1.1 * told + 100'000) << spec;
        EXPECT_GE(2.5 * found + 100'000, told) << spec;
    }
}

TEST(SchemeCost, PartsOfACallersOwnAreNotRun) {
    Scheme scheme = parse_scheme("top_k");
    scheme.parts.defined_as = "own";
    scheme.parts.encoding.encode = [](const RowPiece&, Message&) {
        throw std::logic_error("it ran");
    };
    const ResolvedScheme resolved{kept_by_caller(scheme), 0, scheme.spec, {}};
    const SchemeCost cost = cost_of(resolved, {}, true, 1, 1 << 20);
    EXPECT_GE(cost.most.of(1000, 4), 1000u * 4 * 6 * sizeof(double));
}

}  // namespace
