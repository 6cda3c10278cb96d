// StepExchange reduces the gradients of all tensors of one step with a scheme. A training loop
// calls it instead of an all-reduce. Results have the same bits as a replay of these gradients, for
// any number of threads. The object stores the scheme's memory from step to step.
//
//      StepExchange exchange(scheme, tensors, workers, topology, seed, divide);
//      exchange.run(step, threads)         fills step.out
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulation/allreduce/topology.h"
#include "emulation/schemes/resolved_schemes.h"

namespace apscope::detail {

struct StepTensor {
    std::string name, role = "other";
    std::vector<std::int64_t> shape;

    std::size_t elements() const;
};

// The gradients of a step. The arrays are in the order of the tensors.
struct StepGradients {
    // The number of the step.
    std::int64_t number = 0;
    std::size_t index = 0;  // index among the steps of the training
    std::vector<std::vector<std::span<const float>>> gradients;  // one row per worker
    // Receives the reduced gradient of each tensor.
    std::vector<std::span<float>> out;
    std::vector<std::span<const float>> weights = {};  // empty if no scheme needs them
    std::optional<double> loss, learning_rate;         // unset if not given; a loss may be NaN
};

// The exchange of a tensor whose elements are only scaled, rounded to a float format and added:
// all_reduce() of the scaled values.
struct ScaledReduction {
    const FloatEncoder* encoder = nullptr;  // of the exchange's scheme
    Decision decision;
};

// The reduction of a tensor in two phases of a float grid with one scale per row (float_phases.h).
struct PhasedReduction {
    std::shared_ptr<const Scheme> scheme;  // of the phase; null if the sums are not encoded
    std::vector<double> scales;            // of the rows of workers, or of the shards
    PhiloxKey key{};                       // of the tensor and step
};

class StepExchange {
public:
    // divide: sums are divided by the number of workers, in fp64, before they are rounded to fp32.
    // Throws std::invalid_argument if there is no worker, if two tensors have the same name, or if
    // the scheme chooses a scale from all steps or needs the gradient of the full batch.
    StepExchange(Scheme scheme, std::vector<StepTensor> tensors, int workers,
                 const Topology& topology, std::uint64_t seed, bool divide);

    // Fills step.out. Returns for each tensor true if its scheme dropped the step; its row of `out`
    // is then 0. Throws std::invalid_argument if an array does not have the length of its tensor,
    // or if an input is missing.
    std::vector<bool> run(const StepGradients& step, int threads);

    // True if choose() may replace run(): every scheme only scales, rounds and adds, without random
    // words, with scales from amax and counts, and not exactly unless there is one worker (a
    // decoded message is added then, not its code).
    bool chooses_from_amax() const;
    // The reductions of a step whose gradients are elsewhere, such as in a GPU's memory, one for
    // each tensor. statistics: amax and number of elements that are not finite. Changes the states
    // as run() does.
    std::vector<ScaledReduction> choose(std::int64_t number,
                                        std::vector<AgreedStatistics> statistics);

    // True if choose_in_phases() may replace run(): every tensor is reduced in two phases on float
    // grids, with fp32 sums and scales from a row's amax and counts.
    bool chooses_in_phases() const;
    // The reductions of a step whose gradients are elsewhere. phase: 1 for the messages, 2 for the
    // sums; statistics: for each tensor amax and the number of elements that are not finite, of
    // each worker's row or of each shard's sum. Throws std::invalid_argument if the scheme or the
    // phase is another one.
    std::vector<PhasedReduction> choose_in_phases(
        int phase, std::int64_t number,
        std::vector<std::vector<AgreedStatistics>> statistics) const;

    const Scheme& scheme() const { return scheme_; }
    std::vector<std::string> needs() const;  // some of weights, loss, learning_rate
    // The states by name: SCHEME for a scheme that streams, SCHEME|TENSOR for any other scheme.
    std::map<std::string, State>& states() { return states_; }

private:
    // The exchange of elements first .. first + count - 1 of a tensor with its scheme. If the
    // scheme does not stream, these are all elements.
    struct Task {
        std::shared_ptr<const Scheme> scheme;
        std::size_t tensor, first, count;
        Decision decision;                     // used by a scheme that streams
        State* state;                          // used by any other scheme; otherwise null
        std::shared_ptr<const Bucket> bucket;  // used by a scheme whose blocks cross tensors
    };
    void check(const StepGradients& step) const;
    // The schemes of a step, which the topology may have composed with two phases.
    std::vector<ResolvedScheme> schemes_at(std::int64_t number) const;
    TrainingStep training_step(std::size_t tensor, std::int64_t number) const;
    std::vector<AgreedStatistics> statistics(const StepGradients& step,
                                             std::span<const ResolvedScheme> schemes,
                                             int threads) const;
    std::vector<Task> tasks(const StepGradients& step, int threads);
    // Returns true if the scheme dropped the step.
    bool run(const Task& task, const StepGradients& step) const;
    void stream(const Task& task, const StepGradients& step) const;
    PhiloxKey key(std::size_t tensor, std::int64_t number) const {
        return replay_key(seed_, tensors_[tensor].name, number);
    }
    double divisor() const { return divide_ ? workers_ : 1.0; }

    Scheme scheme_;
    std::vector<StepTensor> tensors_;
    std::vector<PolicyTensor> known_;
    int workers_;
    Topology topology_;
    std::uint64_t seed_;
    bool divide_;
    std::map<std::string, State> states_;
};

}  // namespace apscope::detail
