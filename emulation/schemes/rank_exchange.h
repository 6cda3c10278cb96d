// RankExchange divides the work of StepExchange among processes, one per worker. A rank first sends
// one message to the owner of each shard and then, as the owner of a shard, one message to all
// ranks. The caller transfers the bytes. The results have the same bits as those of StepExchange in
// one process.
//
//      to_owners = exchange.send(step)          shard s of the rank's messages, to rank s
//      to_all    = exchange.add(from_ranks)     the sums of the rank's own shards, to every rank
//      exchange.receive(from_owners, out)       all sums
//
// A message begins with the step, the sending rank and the owner of the shards; a rank refuses the
// messages of other ranks and steps. A call that throws changes neither the states nor `out`.
//
// Only schemes that encode the row of a worker without the rows of the other workers are supported:
// schemes in two phases (also for reduce_scatter), and schemes without a choice of parameters whose
// messages are gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/step_exchange.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

// The gradients of one rank at a step, in the order of the tensors.
struct RankGradients {
    // The number of the step.
    std::int64_t number = 0;
    std::vector<std::span<const float>> gradients = {};
    std::vector<std::span<const float>> weights = {};  // empty if no scheme needs them
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
};

class RankExchange {
public:
    // Throws std::invalid_argument for arguments that StepExchange refuses, for a rank that is not
    // from 0 to workers - 1, and for a scheme or topology that needs other workers' rows to encode
    // a row.
    RankExchange(Scheme scheme, std::vector<StepTensor> tensors, int rank, int workers,
                 const Topology& topology, std::uint64_t seed, bool divide);

    // Returns one message per rank. Throws std::invalid_argument if an array does not have the
    // length of its tensor, if an input is missing, or for a dropped step if the memory depends on
    // whether any worker dropped it.
    std::vector<std::vector<std::byte>> send(const RankGradients& step);
    // received: the messages to this rank, in the order of the sending ranks. Returns the message
    // with the sums of this rank's shards, which every rank needs. Throws std::invalid_argument for
    // a message that does not belong to this exchange and step.
    std::vector<std::byte> add(std::span<const std::vector<std::byte>> received);
    // received: the results of add(), in the order of the ranks. Writes the sums to `out`. Returns
    // for each tensor true if the scheme dropped the step; the tensor's sums are then 0. Throws
    // std::invalid_argument for a message that does not belong to this exchange and step.
    std::vector<bool> receive(std::span<const std::vector<std::byte>> received,
                              std::span<const std::span<float>> out) const;

    const Scheme& scheme() const { return scheme_; }
    // The state of the scheme for the rank's row of a tensor, and for its shard of the sum.
    struct States {
        State row, shard;
    };
    std::vector<States>& states() { return states_; }

private:
    Shard shard(std::size_t tensor, std::size_t owner) const {
        return shard_of(owner, tensors_[tensor].elements(), static_cast<std::size_t>(workers_));
    }
    TrainingStep step_of(std::size_t tensor, const RankGradients& step) const;
    SchemeParts row_parts(Row& sent) const;

    Scheme scheme_;
    std::shared_ptr<const Scheme> phase2_;  // encodes the sums; null if sums are not encoded
    std::vector<StepTensor> tensors_;
    int rank_, workers_;
    bool phased_ = false, own_exact_ = false, divide_;
    std::uint64_t seed_;
    RankGradients step_;  // the last step of send(), without its gradients and weights
    std::vector<States> states_;
};

}  // namespace apscope::detail
