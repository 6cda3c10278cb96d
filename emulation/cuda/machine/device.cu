#include "emulation/cuda/machine/device.h"

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "emulation/cuda/machine/device_memory.h"

namespace apscope::detail {

int device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return count;
}

void require_device(int device) {
    // A bit for each GPU that passed: every call on an array asks.
    static std::atomic<std::uint64_t> passed{0};
    const std::uint64_t bit = device >= 0 && device < 64 ? std::uint64_t{1} << device : 0;
    if ((passed & bit) != 0) return;
    const int count = device_count();
    if (count == 0)
        throw std::runtime_error(
            "this machine has no GPU that CUDA can use; give arrays in the CPU's memory");
    if (device < 0 || device >= count) {
        throw std::runtime_error("there is no GPU number " + std::to_string(device) +
                                 "; CUDA finds " + std::to_string(count));
    }
    int major = 0, minor = 0;
    APSCOPE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    APSCOPE_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    constexpr int min = APSCOPE_MIN_CAPABILITY;
    if (10 * major + minor < min) {
        throw std::runtime_error("the GPU has compute capability " + std::to_string(major) + "." +
                                 std::to_string(minor) + ", and apscope was compiled for " +
                                 std::to_string(min / 10) + "." + std::to_string(min % 10) +
                                 " and newer; build it with CMAKE_CUDA_ARCHITECTURES=" +
                                 std::to_string(10 * major + minor));
    }
    passed |= bit;
}

CurrentDevice::CurrentDevice(int device) {
    require_device(device);
    APSCOPE_CUDA(cudaGetDevice(&before_));
    changes_ = device != before_;
    if (changes_) APSCOPE_CUDA(cudaSetDevice(device));
}
// From CUDA 12 on, cudaSetDevice makes a context on the device.
CurrentDevice::~CurrentDevice() {
    if (changes_) cudaSetDevice(before_);
}

void* allocate_on_device(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) throw DeviceOutOfMemory(bytes);
    check_cuda(error, "cudaMalloc");
    return memory;
}

void release_on_device(void* memory) noexcept { cudaFree(memory); }

int device_of(const void* memory) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged
               ? attributes.device
               : -1;
}

void copy_to_host(const void* device, void* host, std::size_t bytes) {
    if (bytes == 0) return;
    APSCOPE_CUDA(cudaDeviceSynchronize());  // cudaMemcpy does not wait for non-blocking streams
    APSCOPE_CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

void stream_waits_for(cudaStream_t stream, cudaStream_t other) {
    cudaEvent_t event{};
    APSCOPE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaError_t error = cudaEventRecord(event, other);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, event);
    cudaEventDestroy(event);  // CUDA keeps it until the stream has waited
    check_cuda(error, "cudaStreamWaitEvent");
}

}  // namespace apscope::detail
