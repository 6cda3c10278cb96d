#include "analysis/cuda/device_rows.h"
#include "analysis/cuda/replay_cuda.h"
#include "emulation/cuda/machine/device.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

namespace {

// A stream of a device, with the functions that device_rows.h needs.
class StreamQueue {
public:
    explicit StreamQueue(int device) : device_(device) {
        APSCOPE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    StreamQueue(const StreamQueue&) = delete;
    StreamQueue& operator=(const StreamQueue&) = delete;
    ~StreamQueue() { cudaStreamDestroy(stream_); }

    template <class T>
    DeviceMemory<T> allocate(std::uint64_t n) {
        return DeviceMemory<T>(n, stream_);
    }
    template <class T>
    void copy(const T* host, std::uint64_t n, T* to) {
        // CUDA copies pageable memory before the call returns, so the caller may change it
        // afterwards.
        if (n != 0)
            APSCOPE_CUDA(cudaMemcpyAsync(to, host, n * sizeof(T), cudaMemcpyHostToDevice, stream_));
    }
    template <class T>
    std::vector<T> read(const T* from, std::uint64_t n) {
        std::vector<T> values(n);
        if (n != 0)
            APSCOPE_CUDA(cudaMemcpyAsync(values.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost,
                                         stream_));
        APSCOPE_CUDA(cudaStreamSynchronize(stream_));
        return values;
    }
    template <class Step>
    void launch(const Step& step) {
        detail::launch(step, stream_);
    }

private:
    CurrentDevice device_;
    cudaStream_t stream_ = nullptr;
};

struct MakeStreamQueue {
    int device;
    StreamQueue operator()() const { return StreamQueue(device); }
};

constexpr std::uint64_t item_memory = std::uint64_t{1} << 29;

}  // namespace

std::unique_ptr<RowDevice> make_row_device(int device) {
    require_device(device);
    return std::make_unique<DeviceRows<MakeStreamQueue>>(MakeStreamQueue{device}, item_memory);
}

}  // namespace apscope::detail
