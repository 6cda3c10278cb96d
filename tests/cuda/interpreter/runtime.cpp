// CUDA's runtime functions, as far as apscope calls them, on a machine without a GPU: the device's
// memory is the host's, kernels run in the interpreter before a launch returns, streams and events
// order nothing more. Linked in place of NVIDIA's runtime (APSCOPE_CUDA_INTERPRETED).
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>

#include "counts.h"
#include "machine.h"

namespace apscope::interpreter {

namespace {

// The text of PTX in a file that nvcc embeds: headers with their own sizes, then an entry for each
// kind of code, of which kind 1 is PTX; uncompressed (--no-compress).
std::string ptx_in(const void* wrapper) {
    struct Wrapper {
        std::uint32_t magic, version;
        const std::byte* data;
        const void* unused;
    } w{};
    std::memcpy(&w, wrapper, sizeof w);
    struct File {
        std::uint32_t magic;
        std::uint16_t version, header_bytes;
        std::uint64_t bytes;
    } file{};
    std::memcpy(&file, w.data, sizeof file);
    if (w.magic != 0x466243B1u || file.magic != 0xBA55ED50u)
        throw std::runtime_error("the embedded device code is of another form");
    struct Entry {
        std::uint16_t kind, version;
        std::uint32_t header_bytes;
        std::uint64_t bytes;
    } entry{};
    for (std::uint64_t at = file.header_bytes; at < file.header_bytes + file.bytes;
         at += entry.header_bytes + entry.bytes) {
        std::memcpy(&entry, w.data + at, sizeof entry);
        if (entry.kind != 1) continue;
        const auto* text = reinterpret_cast<const char*>(w.data + at + entry.header_bytes);
        return {text, strnlen(text, entry.bytes)};
    }
    throw std::runtime_error("the embedded device code has no PTX; compile for 90-virtual");
}

// An object file's kernels, decoded when they are first launched.
struct Module {
    std::string text;
    std::map<std::string, Function> functions;
};
struct Kernel {
    Module* module = nullptr;
    std::string name;
    bool is_decoded = false;
    Program program;
};

struct State {
    std::map<void**, Module> modules;
    std::map<const void*, Kernel> kernels;
    std::shared_mutex memory_mutex;
    Memory memory;
    std::mutex launch_mutex;
    std::map<std::string, Counts> counts;
    std::string message;  // of the error that the next cudaGetLastError returns
    cudaError_t error = cudaSuccess;
};
// Never destroyed: modules are unregistered after main().
State& state() {
    static State* const made = new State;
    return *made;
}

struct Call {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
};
thread_local std::vector<Call> calls;

cudaError_t fail(cudaError_t error, const std::string& message) {
    state().error = error;
    state().message = message;
    std::fprintf(stderr, "%s\n", message.c_str());
    return error;
}

}  // namespace

std::map<std::string, Counts> take_counts() {
    const std::scoped_lock lock(state().launch_mutex);
    std::map<std::string, Counts> all;
    std::swap(all, state().counts);
    return all;
}

}  // namespace apscope::interpreter

using namespace apscope::interpreter;

extern "C" {

// ---- What nvcc's code calls -----------------------------------------------------------------

void** __cudaRegisterFatBinary(void* wrapper) {
    auto** handle = new void*(wrapper);
    state().modules[handle];
    return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
    state().kernels[host] = {&state().modules[handle], name, false, {}};
    if (state().modules[handle].text.empty()) state().modules[handle].text = ptx_in(*handle);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     CUstream_st* stream) {
    calls.push_back({grid, block, shared, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
    const Call call = calls.back();
    calls.pop_back();
    *grid = call.grid;
    *block = call.block;
    *shared = call.shared;
    *static_cast<cudaStream_t*>(stream) = call.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    *kernel = reinterpret_cast<cudaKernel_t>(&state().kernels.at(host));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                               std::size_t, cudaStream_t) {
    auto& kernel = *reinterpret_cast<Kernel*>(handle);
    const std::scoped_lock lock(state().launch_mutex);
    try {
        if (!kernel.is_decoded) {
            if (kernel.module->functions.empty())
                kernel.module->functions = read_functions(kernel.module->text);
            kernel.program = decode(kernel.module->functions, kernel.name);
            kernel.is_decoded = true;
        }
        const std::shared_lock memory(state().memory_mutex);
        state().counts[kernel.name].add(
            run(kernel.program, {grid.x, block.x, arguments}, state().memory));
        return cudaSuccess;
    } catch (const std::exception& error) {
        return fail(cudaErrorLaunchFailure, kernel.name + ": " + error.what());
    }
}

// ---- Memory ---------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > std::size_t{1} << 34) return fail(cudaErrorMemoryAllocation, "out of memory");
    // Beyond the end: an access there is found, and the allocator's own data are not near.
    *memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
    const std::scoped_lock lock(state().memory_mutex);
    state().memory.add(*memory, bytes);
    return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) {
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
    *pool = reinterpret_cast<cudaMemPool_t>(new char);
    return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    delete reinterpret_cast<char*>(pool);
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
    if (memory == nullptr) return cudaSuccess;
    {
        const std::scoped_lock lock(state().memory_mutex);
        state().memory.remove(memory);
    }
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
    *memory = std::malloc(bytes);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    return cudaMallocHost(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
    return cudaMemset(memory, value, bytes);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = std::size_t{1} << 33;
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
    *attributes = {};
    const std::shared_lock lock(state().memory_mutex);
    const bool is_device =
        state().memory.around(reinterpret_cast<std::uint64_t>(memory)).first != 0;
    attributes->type = is_device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

// ---- The device, streams, events ------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "PTX interpreter");
    properties->major = 9;
    properties->multiProcessorCount = 2;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9
             : attribute == cudaDevAttrMultiProcessorCount  ? 2
                                                            : 0;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    *stream = reinterpret_cast<cudaStream_t>(new char);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete reinterpret_cast<char*>(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = reinterpret_cast<cudaEvent_t>(new char);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<char*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = 0.0f;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() {
    const cudaError_t error = state().error;
    state().error = cudaSuccess;
    return error;
}
const char* cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                              : "cudaErrorLaunchFailure";
}
const char* cudaGetErrorString(cudaError_t) { return state().message.c_str(); }

}  // extern "C"
