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
// schemes in two phases (also for reduce_scatter), schemes whose messages are gathered and whose
// parameters do not depend on the rows of all workers, and policies of such schemes. In two phases
// of a scheme whose blocks cross tensors, the messages for a tensor also have the values of its
// neighbours on which the sum depends (two_phase_bucket.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/step_exchange.h"
#include "emulation/schemes/two_phase_bucket.h"

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

private:
    // The scheme, or one of the policy's branches.
    struct Branch {
        std::shared_ptr<const Scheme> scheme;
        std::shared_ptr<const Scheme> phase2 = nullptr;  // encodes the sums; null if nothing does
        bool phased = false;  // true: two phases, in which each row is encoded alone
    };
    // The elements of a tensor that an owner adds: elements first .. end - 1 of the tensor, and
    // before and after them those of neighbouring tensors on which their sum depends.
    struct Part {
        std::size_t first = 0, end = 0, before = 0, after = 0;

        std::size_t count() const { return end - first; }
        std::size_t all() const { return before + count() + after; }
    };
    // A tensor at a step.
    struct Item {
        std::size_t tensor;
        const Branch* branch;
        std::optional<Bucket> bucket;     // of a scheme whose blocks cross tensors
        std::vector<ShardPart> in_array;  // parts of the array of the bucket or tensor
        std::vector<Part> parts;          // one per owner

        const SchemeParts& scheme() const { return branch->scheme->parts; }
        // True if the sum depends on elements of neighbouring tensors.
        bool crosses() const { return bucket && branch->phase2; }
    };
    // The state of a scheme for the rank's row of a tensor, and for its shard of the sum.
    struct States {
        State row, shard;
    };
    // The tensors at a step, whose gradients may be missing if no row of a bucket is read.
    std::vector<Item> items(const RankGradients& step) const;
    States& states_of(const Item& item) { return states_[item.tensor][item.branch->scheme->spec]; }
    TrainingStep step_of(const Item& item, const RankGradients& step) const;
    SchemeParts row_parts(const Branch& branch, Row& sent) const;
    void check(const RankGradients& step) const;
    Row encode(const Item& item, const TrainingStep& step, std::span<const float> gradient,
               State& state, bool& skipped) const;

    Scheme scheme_;
    std::vector<Branch> branches_;  // those of the policy, in its order, or the scheme
    std::vector<StepTensor> tensors_;
    std::vector<PolicyTensor> known_;
    std::vector<std::string> needs_;  // some of weights, loss, learning_rate
    int rank_, workers_;
    bool own_exact_ = false, divide_;
    std::uint64_t seed_;
    RankGradients step_;  // the last step of send(), without its gradients and weights
    // The states of each tensor, by the spec of the scheme.
    std::vector<std::map<std::string, States>> states_;
};

}  // namespace apscope::detail
