#include "analysis/cuda/device_rows.h"
#include "analysis/cuda/replay_cuda.h"
#include "emulation/cuda/machine/stream_queue.h"

namespace apscope::detail {

namespace {

struct MakeStreamQueue {
    std::shared_ptr<StreamCache> cache;
    StreamQueue operator()() const { return StreamQueue(*cache); }
};

constexpr std::uint64_t item_memory = std::uint64_t{1} << 29;

}  // namespace

std::unique_ptr<RowDevice> make_row_device(int device, std::uint64_t min_values) {
    require_device(device);
    return std::make_unique<DeviceRows<MakeStreamQueue>>(
        MakeStreamQueue{std::make_shared<StreamCache>(device)}, item_memory, min_values);
}

}  // namespace apscope::detail
