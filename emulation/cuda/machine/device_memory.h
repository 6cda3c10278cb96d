// Memory of the current device for the duration of a call, and its exception for exhausted memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/cuda/machine/check.h"

namespace apscope::detail {

// The exception for an allocation that exceeds the free memory of a GPU.
class DeviceOutOfMemory : public std::bad_alloc {
public:
    explicit DeviceOutOfMemory(std::size_t bytes) {
        std::size_t free = 0, total = 0;
        cudaGetLastError();  // clears the error, which the next CUDA call would report again
        const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
        text_ = "the GPU does not have enough memory for an allocation of " +
                std::to_string(bytes) + " bytes";
        if (known)
            text_ += "; " + std::to_string(free) + " of its " + std::to_string(total) +
                     " bytes are free";
    }
    const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

struct EveryByte {
    unsigned char value;
};

// Memory for elements of type T, which is allocated and released in the order of the stream; from
// `pool`, or if it is null from the device's own.
template <class T>
class DeviceMemory {
public:
    DeviceMemory(std::size_t size, cudaStream_t stream, cudaMemPool_t pool = nullptr)
        : size_(size), stream_(stream) {
        if (size == 0) return;
        void* p = nullptr;
        const cudaError_t error = pool == nullptr
                                      ? cudaMallocAsync(&p, bytes(), stream)
                                      : cudaMallocFromPoolAsync(&p, bytes(), pool, stream);
        if (error == cudaErrorMemoryAllocation) throw DeviceOutOfMemory(bytes());
        check_cuda(error, "cudaMallocAsync");
        data_ = static_cast<T*>(p);
    }
    DeviceMemory(std::size_t size, EveryByte byte, cudaStream_t stream)
        : DeviceMemory(size, stream) {
        if (size_ != 0) APSCOPE_CUDA(cudaMemsetAsync(data_, byte.value, bytes(), stream_));
    }
    // Throws std::runtime_error if a graph is captured, which would read `values` when it runs.
    DeviceMemory(const std::vector<T>& values, cudaStream_t stream)
        : DeviceMemory(values.size(), stream) {
        if (size_ == 0) return;
        cudaStreamCaptureStatus capture{};
        APSCOPE_CUDA(cudaStreamIsCapturing(stream, &capture));
        if (capture != cudaStreamCaptureStatusNone)
            throw std::runtime_error(
                "this call copies from the CPU, which a CUDA graph cannot repeat; leave it out of "
                "what is captured");
        // CUDA copies pageable memory to a buffer before the call returns, so `values` may be
        // destroyed after the call.
        APSCOPE_CUDA(
            cudaMemcpyAsync(data_, values.data(), bytes(), cudaMemcpyHostToDevice, stream_));
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    ~DeviceMemory() {
        if (data_ != nullptr) cudaFreeAsync(data_, stream_);
    }

    T* get() const { return data_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    // Waits for the stream, then returns the elements.
    std::vector<T> read() const {
        std::vector<T> values(size_);
        if (size_ != 0)
            APSCOPE_CUDA(
                cudaMemcpyAsync(values.data(), data_, bytes(), cudaMemcpyDeviceToHost, stream_));
        APSCOPE_CUDA(cudaStreamSynchronize(stream_));
        return values;
    }

private:
    T* data_ = nullptr;
    std::size_t size_;
    cudaStream_t stream_;
};

}  // namespace apscope::detail
