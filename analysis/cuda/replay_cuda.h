// Replay's schemes that scale and round, on a GPU: the device that ReplayOptions takes.
#pragma once

#include <cstdint>
#include <memory>

#include "analysis/replay/row_device.h"

namespace apscope::detail {

// Values of an item, elements times workers, from which on a GPU is worth its calls (the estimate
// is in docs/performance.md).
inline constexpr std::uint64_t values_for_gpu = std::uint64_t{1} << 18;

// GPU number `device`, for items of `min_values` and more. Threads work in parallel, each on its
// own streams and in up to 512 MiB of the GPU's memory, or less if that is not available, and 4
// bytes for every block of sums that two phases encode in blocks; the memory is kept for further
// items. CUDA makes its context for the first item. Throws std::runtime_error with one sentence as
// require_device() does.
std::unique_ptr<RowDevice> make_row_device(int device, std::uint64_t min_values = values_for_gpu);

}  // namespace apscope::detail
