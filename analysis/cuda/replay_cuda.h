// Replay's float schemes on a GPU: the device that ReplayOptions takes.
#pragma once

#include <memory>

#include "analysis/replay/row_device.h"

namespace apscope::detail {

// GPU number `device`. Threads work in parallel, each on its own stream and in up to 512 MiB of the
// GPU's memory, or less if that is not available. Throws std::runtime_error with one sentence as
// require_device() does.
std::unique_ptr<RowDevice> make_row_device(int device);

}  // namespace apscope::detail
