// Trace: recorded gradients, opened for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "export.h"

namespace apscope {

/// @addtogroup trace Traces
/// @{

class Results;         // <apscope/replay.h>
struct ReplayOptions;  // <apscope/replay.h>
namespace detail {
class Trace;
}

/// A tensor of a trace.
struct TraceTensor {
    std::string name;
    std::string role;  ///< conv, linear, attention, norm, bias, embedding, head or other
    std::vector<std::int64_t> shape;
};

/// Recorded fp32 numbers in C order. They stay valid as long as a copy of this object exists; after
/// a move only the new object keeps them valid.
struct TraceValues {
    std::span<const float> values;
    std::vector<std::int64_t> shape;
    std::shared_ptr<const void> owner;  ///< keeps the numbers in memory
};

/// A recorded trace: a folder with a manifest and safetensors files (docs/trace_format.md). Copies
/// are cheap, and a move is a copy, so a Trace that was moved from stays open. Several threads may
/// read one Trace.
class APSCOPE_API Trace {
public:
    Trace(const Trace&) = default;
    Trace& operator=(const Trace&) = default;

    [[nodiscard]] const std::string& name() const;  ///< the manifest's name, or else the folder's
    [[nodiscard]] const std::filesystem::path& path() const;
    [[nodiscard]] const std::string& model() const;
    [[nodiscard]] int workers() const;
    [[nodiscard]] const std::string& stage() const;  ///< `local`, `reduced` or `clipped`
    /// `sum` or `mean`: the way in which training combined the workers' gradients.
    [[nodiscard]] const std::string& reduction() const;
    [[nodiscard]] std::vector<std::int64_t> steps() const;   ///< recorded training steps, ascending
    [[nodiscard]] std::vector<TraceTensor> tensors() const;  ///< in the manifest's order

    /// The recorded values, without a copy.
    /// @param step    A recorded step.
    /// @param tensor  A tensor's name; for activations a layer's name.
    /// @param worker  A rank, from 0; has no effect if the kind exists once per step.
    /// @param kind    `gradient`, `weights`, `full_batch`, `activation_gradient` or `layer_input`.
    /// @throws std::invalid_argument  The trace does not have these values, or the file is damaged;
    ///                                the message names the file and the field.
    [[nodiscard]] TraceValues read(std::int64_t step, const std::string& tensor, int worker,
                                   std::string_view kind = "gradient") const;

private:
    friend APSCOPE_API Trace open_trace(const std::filesystem::path& folder);
    friend APSCOPE_API Results replay(const Trace& trace, const std::vector<std::string>& schemes,
                                      const ReplayOptions& options);
    explicit Trace(std::shared_ptr<const detail::Trace> trace) : trace_(std::move(trace)) {}
    std::shared_ptr<const detail::Trace> trace_;
};

/// Opens a trace: reads its manifest, and checks that every file it lists exists with its full
/// length.
/// @throws std::invalid_argument  The folder is not a trace, or a damaged one; the message names
///                                the file and the field.
[[nodiscard]] APSCOPE_API Trace open_trace(const std::filesystem::path& folder);

/// @}

}  // namespace apscope
