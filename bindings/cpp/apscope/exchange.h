// Exchanges: a scheme on the gradients of all workers, with its memory from step to step.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "export.h"

namespace apscope {

/// @addtogroup exchange Exchanges
/// @{

/// The memory of a scheme: numbers by name, as in `apscope.exchange`'s `state`.
using Memory = std::map<std::string, std::vector<double>>;

/// The inputs of an exchange other than the gradients of one tensor at one step.
struct ExchangeInputs {
    std::string topology = "ring";         ///< for schemes that add in a format
    std::int64_t step = 0;                 ///< number of the step; draws depend on it
    std::size_t index = 0;                 ///< number of the step in the sequence, from 0
    std::string tensor = "x";              ///< name of the tensor; draws depend on it
    std::string role = "other";            ///< role of the tensor, as in TraceTensor
    std::vector<std::int64_t> shape = {};  ///< shape of one worker's gradient; empty: one axis
    std::uint64_t seed = 0;                ///< seed of the draws
    /// Inputs that some schemes need; NaN or empty if they are unknown.
    double loss = std::numeric_limits<double>::quiet_NaN();
    double learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights = {}, full_batch = {};
    bool packs = false;  ///< true: messages are also packed into `payload`
};

/// The result of an exchange. Members with one entry per worker are in the order of the workers.
struct ExchangeResult {
    /// The values before encoding: the gradients, or gradients combined with the scheme's memory.
    std::vector<std::vector<double>> intended;
    std::vector<std::vector<double>> sent;  ///< the decoded messages
    std::vector<double> reduced;            ///< the sum over the workers, never divided
    std::string reduction;                  ///< the topology, or the scheme's own reduction
    /// E[sent] - intended, and Var[sent], over the draws; empty if unknown.
    std::vector<std::vector<double>> bias, variance;
    std::vector<std::vector<std::uint8_t>> payload;      ///< packed codes, if `packs` is true
    std::vector<std::uint64_t> payload_bits, side_bits;  ///< bits of the messages
    std::optional<int> scale_exponent;  ///< s if one scale 2^s applied to all elements
    bool skipped = false;               ///< the scheme dropped this step
};

/// Runs one step's gradients of one tensor through a scheme. Results equal those of
/// `apscope.exchange` in Python, bit for bit.
///
/// @param scheme     A spec, such as `aps:e4m3`; not a hybrid, whose branches are schemes.
/// @param gradients  One row per worker, equally long. A float grid rounds elements that
///                   are not finite (with saturation, to the largest value); other schemes return
///                   such elements unchanged. They count as 0 in the choice of a scale; a dynamic
///                   loss scale drops a step that has them.
/// @param inputs     Topology, step, tensor, draws.
/// @param memory     The scheme's memory after the step before, empty at first; it becomes the
///                   memory after this step.
/// @throws std::invalid_argument  An unknown scheme or topology, no worker, rows of different
///                                lengths, a missing input of the scheme, the memory of another
///                                tensor.
APSCOPE_API ExchangeResult exchange(std::string_view scheme,
                                    std::span<const std::span<const float>> gradients,
                                    const ExchangeInputs& inputs, Memory& memory);

/// A tensor of a training loop.
struct TrainedTensor {
    std::string name, role = "other";
    std::vector<std::int64_t> shape;
};

/// One step of a training loop. The rows are in the order of the tensors.
struct TrainedStep {
    std::int64_t step = 0;                                       ///< number of the step, from 0
    std::vector<std::vector<std::span<const float>>> gradients;  ///< per tensor, a row per worker
    /// Receives the means over the workers, or the sums without `divide`, rounded to fp32.
    std::vector<std::span<float>> out;
    std::vector<std::span<const float>> weights = {};  ///< for schemes that need them
    double loss = std::numeric_limits<double>::quiet_NaN();
    double learning_rate = std::numeric_limits<double>::quiet_NaN();
};

/// The exchange of all tensors of a step, instead of a training loop's all-reduce: any scheme or
/// hybrid, with its memory. The gradients of all workers are in one process. Results equal those of
/// `apscope.train.Workers`, bit for bit, on any number of threads. An object that was moved from
/// throws std::invalid_argument, until another is assigned to it.
class APSCOPE_API TrainingExchange {
public:
    /// @param scheme    A spec, except of a scheme that chooses in hindsight (`scale=largest`,
    ///                  `scale=best`) or needs the gradient of the full batch.
    /// @param tensors   The tensors, with different names.
    /// @param workers   At least one.
    /// @param topology  For schemes that add in a format.
    /// @param seed      The seed of the draws.
    /// @param divide    True: sums are divided by the number of workers, in fp64.
    /// @throws std::invalid_argument  An argument does not meet these conditions.
    TrainingExchange(std::string_view scheme, std::vector<TrainedTensor> tensors, int workers,
                     std::string_view topology = "ring", std::uint64_t seed = 0,
                     bool divide = true);
    ~TrainingExchange();
    TrainingExchange(TrainingExchange&&) noexcept;
    TrainingExchange& operator=(TrainingExchange&&) noexcept;

    /// Exchanges a step; fills `step.out`.
    /// @param step     The gradients of the step, and the rows that receive the sums.
    /// @param threads  0 uses all processors of the process; the number of threads changes no bit.
    /// @returns for each tensor, true if the scheme dropped the step; the tensor's row of `out` is
    ///          then 0.
    /// @throws std::invalid_argument  Rows of other lengths, a missing input of the scheme.
    std::vector<bool> run(const TrainedStep& step, int threads = 0);

    /// The scheme's memory, by scheme and tensor; set_memory() continues from it.
    [[nodiscard]] std::map<std::string, Memory> memory() const;
    void set_memory(const std::map<std::string, Memory>& memory);

private:
    struct Data;
    Data& data() const;
    std::unique_ptr<Data> data_;
};

/// @}

}  // namespace apscope
