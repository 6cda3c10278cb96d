// The GPUs of this machine, for callers without CUDA's headers: functions that test whether a GPU
// is supported, and that access its memory.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace apscope::detail {

// Throws std::runtime_error with one sentence if this machine has no GPU number `device`, or if the
// compute capability of this GPU is below those for which apscope was compiled.
void require_device(int device);
int device_count();  // 0 if CUDA finds no driver or no GPU

// Makes a device the current device of CUDA during the lifetime of this object.
class CurrentDevice {
public:
    explicit CurrentDevice(int device);
    ~CurrentDevice();
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;

private:
    int before_ = 0;
    bool changes_ = false;
};

// Allocates memory of the current device; throws DeviceOutOfMemory, a std::bad_alloc that names the
// size.
void* allocate_on_device(std::size_t bytes);
void release_on_device(void* memory) noexcept;  // waits until no kernel uses the memory
// The device on which CUDA has allocated the memory; -1 for other memory.
int device_of(const void* memory);
// Copies after all work that the current device has, and waits for the copy.
void copy_to_host(const void* device, void* host, std::size_t bytes);
// Work that `stream` gets from now on waits for that which `other` has; both of the current device.
void stream_waits_for(CUstream_st* stream, CUstream_st* other);

}  // namespace apscope::detail
