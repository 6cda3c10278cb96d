// define_scheme: adds a scheme that consists of the caller's functions, without a change to the
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange.h"
#include "export.h"
#include "schemes.h"

namespace apscope {

/// @addtogroup schemes Schemes
/// @{

namespace detail {
struct TrainingStep;
}

/// One tensor at one step, as the functions of a defined scheme see it. It is valid during the call
/// of the function only.
class APSCOPE_API SchemeStep {
public:
    std::string_view tensor() const;  ///< the tensor's name
    std::string_view role() const;    ///< its role, such as `linear`
    std::span<const std::int64_t> shape() const;
    std::int64_t number() const;  ///< the training step's number
    std::size_t index() const;    ///< the step's index among the steps of the run, from 0
    int workers() const;
    /// The number of messages, which is more than `worker` of `encode` and `decode`: workers(), or
    /// in two phases the number of workers and of owners.
    int senders() const;
    double loss() const;           ///< NaN if it is unknown
    double learning_rate() const;  ///< NaN if it is unknown
    /// The tensor's weights and the gradient of the full batch; empty if they are not recorded.
    std::span<const float> weights() const, full_batch() const;

    /// Random integers from 0 to 2^bits - 1 for elements 0 to count - 1 of a worker's row. They
    /// depend on the seed, the tensor, the step, the worker and `hop` alone, so equal calls return
    /// equal integers.
    /// @param worker  The worker's number, from 0.
    /// @param count   The number of integers.
    /// @param bits    1 to 64.
    /// @param hop     Distinguishes several draws of one worker.
    /// @throws std::invalid_argument  `worker` is negative, or `bits` outside 1 to 64.
    std::vector<std::uint64_t> random(int worker, std::size_t count, int bits = 32,
                                      std::uint32_t hop = 0) const;

    SchemeStep(const detail::TrainingStep& step, std::string_view scheme,
               const char* function)  // internal
        : step_(&step), scheme_(scheme), function_(function) {}

private:
    const detail::TrainingStep* step_;
    std::string_view scheme_;  // the names of the scheme and of the function, for messages
    const char* function_;
};

/// The message that `encode` returns for a worker's row.
struct SchemeMessage {
    /// The decoded values, as many as the row has. May be empty if the scheme has `decode`, which
    /// then computes them from the payload.
    std::vector<double> values = {};
    std::vector<std::uint8_t> payload = {};  ///< the packed bits
    /// Bits of the message, which fill the bytes of `payload`; by default 8 for each byte, and
    /// without a payload `SchemeFunctions::bits` for each value.
    std::optional<std::uint64_t> payload_bits = {};
    std::uint64_t side_bits = 0;  ///< bits of side information, such as a scale
    /// E[value] - row and Var[value] over the draws of `encode`, one per value, if they have a
    /// closed form. Both empty: unknown.
    std::vector<double> bias = {}, variance = {};
};

/// The functions of a defined scheme, in the order of their calls, and facts about them. In place
/// of a function that is left out, the base's runs, but see `reduce`. A function gets one tensor at
/// one step, with complete rows, one per worker, whose elements are all finite: infinities and NaNs
/// bypass the scheme. In two phases each row is encoded alone: `select` gets one row and workers()
/// is 1; in the second phase the row and shape() are the owner's part of the sum, and `worker` is
/// the number of workers plus the owner's rank; senders() is twice the number of workers. Several
/// threads call the functions at once, for different tensors or steps. An exception of a function
/// ends the replay or exchange, whose caller receives it unchanged.
struct SchemeFunctions {
    using Row = std::vector<double>;
    using Rows = std::vector<Row>;

    std::string base = "none:fp32";  ///< the spec of the scheme that has all other parts

    /// Converts gradients to the values that the workers intend to send, in place.
    std::function<void(const SchemeStep&, Memory&, Rows&)> compensate = {};
    /// Converts the rows that `compensate` returned to those that are encoded, which may have
    /// another length, the same for all workers.
    std::function<Rows(const SchemeStep&, const Memory&, const Rows&)> forward = {};
    /// Chooses parameters for all workers, under any names. Some names have a meaning for the
    /// library: `scale`, which a base with a float format needs, `scales` (one per element),
    /// `scale_exponent` (s of a scale 2^s), `skipped` (not 0: the step is dropped).
    std::function<Memory(const SchemeStep&, Memory&, const Rows&)> select = {};
    /// The message of one worker. `parameters` are those of `select`.
    std::function<SchemeMessage(const SchemeStep&, const Memory& parameters,
                                std::span<const double> row, int worker)>
        encode = {};
    /// The `count` values of a message that `encode` returned without values. Needs `encode`.
    std::function<Row(const SchemeStep&, const Memory& parameters, const SchemeMessage&,
                      std::size_t count, int worker)>
        decode = {};
    /// The sum over the workers of the decoded values. Without `reduce`, and with `encode`, values
    /// are gathered: each is rounded to fp32, and they are added in fp32 in the order of the ranks.
    std::function<Row(const SchemeStep&, Memory&, const Memory& parameters, const Rows& values)>
        reduce = {};
    /// The inverse of `forward`, for the values of a message or of a sum; it must be linear.
    /// Returns as many values as a gradient has.
    std::function<Row(const SchemeStep&, const Memory&, std::span<const double>)> inverse = {};
    /// Computes the memory of the next step.
    std::function<void(const SchemeStep&, Memory&, const Rows& intended, const Rows& sent,
                       std::span<const double> reduced)>
        update = {};

    int bits = 32;  ///< bits per value of a message without a payload, 0 to 64
    /// False: `encode` uses no random words, so that its messages are exact and not draws.
    bool draws = true;
    /// True: steps must come in order. By default the base's value, or true with `update`.
    std::optional<bool> keeps_state = {};
    bool compares_intended = false;  ///< results also compare sent values with the intended ones
    std::string grid = {};           ///< the column `format`; empty: the base's
};

/// Defines a scheme. From then on every function of this process that takes a spec, such as
/// `replay`, `exchange` and `TrainingExchange`, knows its name, also inside another scheme, as in
/// `error_feedback(NAME)`. A scheme whose messages are gathered also works with the topologies
/// `two_phase` and `reduce_scatter`. A defined scheme has the family `other` and takes no keys.
/// Several threads may call the function, also while others use schemes. Python's
/// `apscope.schemes.define` defines schemes in the same way.
///
/// @param name       A word that no scheme has, without `:,;=()@` and spaces. A defined scheme of
///                   this name is replaced; replays and exchanges that run continue with the old
///                   one.
/// @param functions  The functions that replace parts of the base.
/// @returns the scheme, as `scheme(name)`.
/// @throws std::invalid_argument  A name of the library's schemes, or one that is invalid in specs;
///                                an unknown base, or one that decides over several tensors; `bits`
///                                outside 0 to 64; `decode` without `encode`. Later, where the
///                                scheme is used: a function returned a row of another length.
APSCOPE_API Scheme define_scheme(std::string_view name, SchemeFunctions functions);

/// @}

}  // namespace apscope
