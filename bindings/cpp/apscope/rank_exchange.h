// RankExchange: a training exchange of a program that has one worker per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange.h"
#include "export.h"

namespace apscope {

/// @addtogroup exchange Exchanges
/// @{

/// The gradients of one rank at a step, in the order of the tensors.
struct RankStep {
    std::int64_t step = 0;                               ///< number of the step, from 0
    std::vector<std::span<const float>> gradients = {};  ///< of this rank
    std::vector<std::span<const float>> weights = {};    ///< for schemes that need them
    double loss = std::numeric_limits<double>::quiet_NaN();
    double learning_rate = std::numeric_limits<double>::quiet_NaN();
};

/// A TrainingExchange divided among processes, one per worker; the program moves the bytes, with
/// MPI or otherwise. Every rank gets the result of TrainingExchange in one process, bit for bit.
///
///      to_owners = exchange.send(step)       element r goes to rank r    MPI_Alltoallv
///      to_all    = exchange.add(from_all)    goes to every rank          MPI_Allgatherv
///      exchange.receive(from_owners, out)
///
/// Messages have the machine's byte order, so all ranks must run on machines of one kind. Their
/// lengths depend on the tensors and on the number of NaNs and infinities in the gradients. They
/// contain decoded values, not packed codes: an exchange emulates a scheme, it saves no bytes.
/// Every message begins with the step, the sending rank and the owner of the shards (24 bytes), so
/// that a rank refuses a message of another step or rank. A call that throws changes neither the
/// memory nor `out`.
///
/// It runs schemes that encode a worker's row without the other rows:
/// - with the topologies `two_phase` and `reduce_scatter` (with the keys `own` and `phase2`, not
///   `sum`) every scheme that these topologies reduce in two phases; each rank and each shard then
///   has scales of its own;
/// - with any topology but a hierarchy of two levels, schemes whose messages are gathered and whose
///   parameters do not depend on all rows, such as `qsgd`, `top_k` and defined schemes with
///   `encode` on a base with a constant scale;
/// - hybrids of these schemes. Blocks may cross tensors (`bucket=`); in two phases the messages for
///   each tensor then have its neighbours in the same shards too, so that many small tensors in one
///   bucket make long messages.
///
/// The constructor refuses other schemes, which need all rows for a scale or for their memory:
/// schemes of a topology that adds codes (`ring`), one scale for several tensors
/// (`unit=bucket:SIZE`), another basis, defined schemes with `compensate` or `update`, and error
/// feedback around dynamic loss scaling. With error feedback around a defined scheme, send() throws
/// at a step that the scheme drops.
///
/// An object that was moved from throws std::invalid_argument, until another is assigned to it.
class APSCOPE_API RankExchange {
public:
    /// All ranks pass the same arguments, except `rank`.
    /// @param scheme    A spec, as for TrainingExchange.
    /// @param tensors   The tensors, with different names.
    /// @param rank      This process's worker, from 0.
    /// @param workers   The number of ranks.
    /// @param topology  As for TrainingExchange.
    /// @param seed      The seed of the draws.
    /// @param divide    True: sums are divided by the number of workers, in fp64.
    /// @throws std::invalid_argument  An argument does not meet these conditions; the scheme needs
    ///                                the other workers' rows.
    RankExchange(std::string_view scheme, std::vector<TrainedTensor> tensors, int rank, int workers,
                 std::string_view topology = "two_phase", std::uint64_t seed = 0,
                 bool divide = true);
    ~RankExchange();
    RankExchange(RankExchange&&) noexcept;
    RankExchange& operator=(RankExchange&&) noexcept;

    /// Encodes the rank's gradients, and updates the memory of its rows.
    /// @returns one message per rank, in order: the shard of every tensor that this rank owns.
    ///          Shard r has the elements r m to (r + 1) m - 1, with m = ceil(elements / workers).
    /// @throws std::invalid_argument  Rows of other lengths, a missing input of the scheme, a
    ///                                dropped step with error feedback.
    std::vector<std::vector<std::byte>> send(const RankStep& step);
    /// Adds the values that the ranks sent to this one, in fp32 in the order of the ranks, and
    /// encodes the sums.
    /// @param received  One message per rank, in order, including this rank's message to itself.
    /// @returns the message to every rank.
    /// @throws std::invalid_argument  A message does not belong to this exchange and step.
    std::vector<std::byte> add(std::span<const std::vector<std::byte>> received);
    /// Fills in the sums over the workers, rounded to fp32.
    /// @param received  The messages that add() returned on all ranks, in their order.
    /// @param out       A row per tensor.
    /// @returns for each tensor, true if the scheme dropped the step; its row of `out` is then 0.
    /// @throws std::invalid_argument  A message does not belong to this exchange and step; a row
    ///                                has another length.
    std::vector<bool> receive(std::span<const std::vector<std::byte>> received,
                              std::span<const std::span<float>> out) const;

private:
    struct Data;
    Data& data() const;
    std::unique_ptr<Data> data_;
};

/// @}

}  // namespace apscope
