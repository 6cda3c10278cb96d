// RankExchange is StepExchange divided among processes, one per worker: what a rank sends, what the
// owner of a shard makes of what it receives, and what all ranks receive then. The caller moves the
// bytes. The results have the same bits as those of StepExchange in one process.
//
//      to_owners = exchange.send(step)          shard s of the rank's messages, to rank s
//      to_all    = exchange.add(from_ranks)     the sums of the rank's own shards, to every rank
//      exchange.receive(from_owners, out)       all sums
//
// It runs schemes that encode the row of a worker without the other workers: in two phases (and
// reduce_scatter), and schemes without a choice of parameters whose messages are gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/step_exchange.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

// The gradients of one rank at a step, in the order of the tensors.
struct RankGradients {
    std::int64_t number = 0;
    std::vector<std::span<const float>> gradients = {};
    std::vector<std::span<const float>> weights = {};  // empty if no scheme needs them
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
};

class RankExchange {
public:
    // Throws std::invalid_argument for what StepExchange refuses, an impossible rank, and a scheme
    // or topology that encodes a row with knowledge of the others.
    RankExchange(Scheme scheme, std::vector<StepTensor> tensors, int rank, int workers,
                 const Topology& topology, std::uint64_t seed, bool divide);

    // One message per rank. Throws std::invalid_argument for arrays of other lengths, or missing
    // inputs.
    std::vector<std::vector<std::byte>> send(const RankGradients& step);
    // received: of every rank in order, what it sent to this rank. Throws std::invalid_argument if
    // one of them is not a message of this step.
    std::vector<std::byte> add(std::span<const std::vector<std::byte>> received);
    // received: of every rank in order, what its add() returned. Returns for each tensor true if
    // the scheme dropped the step; its row of `out` is then 0.
    std::vector<bool> receive(std::span<const std::vector<std::byte>> received,
                              std::span<const std::span<float>> out) const;

    const Scheme& scheme() const { return scheme_; }
    // The memory of the rank's rows and of its shards, by tensor.
    struct States {
        State row, shard;
    };
    std::vector<States>& states() { return states_; }

private:
    Shard shard(std::size_t tensor, std::size_t owner) const {
        return shard_of(owner, tensors_[tensor].elements(), static_cast<std::size_t>(workers_));
    }
    TrainingStep step_of(std::size_t tensor) const;
    SchemeParts row_parts(Row& sent) const;

    Scheme scheme_;
    std::shared_ptr<const Scheme> phase2_;  // encodes the sums; null: they are sent as they are
    std::vector<StepTensor> tensors_;
    int rank_, workers_;
    bool phased_ = false, own_exact_ = false, divide_;
    std::uint64_t seed_;
    RankGradients step_;  // the current step; without its rows once send() returns
    std::vector<States> states_;
};

}  // namespace apscope::detail
