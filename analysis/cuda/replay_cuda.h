// Replay's float schemes on a GPU: the device that ReplayOptions takes.
#pragma once

#include <memory>

#include "analysis/replay/row_device.h"

namespace apscope::detail {

// GPU number `device`. Threads work side by side, each on a stream of its own and in up to 512 MiB
// of the GPU's memory, less where there is no room for that. Throws std::runtime_error with one
// sentence as require_device() does.
std::unique_ptr<RowDevice> make_row_device(int device);

}  // namespace apscope::detail
