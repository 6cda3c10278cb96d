// A queue of work for a GPU as analysis/cuda/device_rows.h needs it: one stream for steps, another
// for copies to the device, so that the values of the next piece arrive while the steps of this one
// run. Copies go through page-locked memory, without which CUDA copies neither at the bus's speed
// nor beside other work. Streams, page-locked memory and the device's memory are kept for the next
// item.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "emulation/cuda/machine/device.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

// A stream that does not wait for the default one.
class Stream {
public:
    Stream() { APSCOPE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { cudaStreamDestroy(stream_); }
    operator cudaStream_t() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

class StreamEvent {
public:
    StreamEvent() { APSCOPE_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
    StreamEvent(const StreamEvent&) = delete;
    StreamEvent& operator=(const StreamEvent&) = delete;
    ~StreamEvent() { cudaEventDestroy(event_); }
    void record(cudaStream_t stream) { APSCOPE_CUDA(cudaEventRecord(event_, stream)); }
    void wait() const { APSCOPE_CUDA(cudaEventSynchronize(event_)); }
    void hold(cudaStream_t stream) const { APSCOPE_CUDA(cudaStreamWaitEvent(stream, event_)); }

private:
    cudaEvent_t event_ = nullptr;
};

// Page-locked memory of the host, and the end of the last copy from it or to it.
struct PinnedMemory {
    explicit PinnedMemory(std::size_t n) : bytes(n) {
        const cudaError_t error = cudaHostAlloc(&data, n, cudaHostAllocPortable);
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // clears the error
            throw std::bad_alloc();
        }
        check_cuda(error, "cudaHostAlloc");
    }
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    ~PinnedMemory() { cudaFreeHost(data); }

    std::size_t bytes;
    void* data = nullptr;
    StreamEvent copied;
};

// The streams and the page-locked memory of one item at a time.
struct Streams {
    static constexpr std::size_t staged_bytes = std::size_t{1} << 21, staged_count = 4;

    Streams() {
        for (std::size_t k = 0; k < staged_count; ++k)
            staged.push_back(std::make_unique<PinnedMemory>(staged_bytes));
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    // Copies through the staging buffers in turn, so the caller may change `from` afterwards.
    void copy(const void* from, std::size_t bytes, void* to) {
        for (std::size_t at = 0; at < bytes; at += staged_bytes) {
            PinnedMemory& buffer = *staged[next++ % staged_count];
            const std::size_t n = std::min(staged_bytes, bytes - at);
            buffer.copied.wait();  // of its last use
            std::memcpy(buffer.data, static_cast<const std::byte*>(from) + at, n);
            APSCOPE_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, buffer.data, n,
                                         cudaMemcpyHostToDevice, copies));
            buffer.copied.record(copies);
        }
    }
    // Memory that is not in use, or new.
    std::unique_ptr<PinnedMemory> landing(std::size_t bytes) {
        const auto fits = std::ranges::find_if(
            idle, [&](const std::unique_ptr<PinnedMemory>& m) { return m->bytes >= bytes; });
        if (fits == idle.end()) {
            if (!idle.empty())
                idle.pop_back();  // larger items must not keep what was for smaller ones
            return std::make_unique<PinnedMemory>(bytes);
        }
        std::unique_ptr<PinnedMemory> found = std::move(*fits);
        idle.erase(fits);
        return found;
    }

    Stream work, copies;
    StreamEvent worked, copied;
    std::vector<std::unique_ptr<PinnedMemory>> staged, idle;
    std::size_t next = 0;
};

// What the items of a replay use one after another: streams, and a pool of the device's memory,
// which CUDA would otherwise give back to the driver whenever a stream waits.
class StreamCache {
public:
    explicit StreamCache(int device) : device_(device) {}
    StreamCache(const StreamCache&) = delete;
    StreamCache& operator=(const StreamCache&) = delete;
    ~StreamCache() {
        idle_.clear();
        if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
    }
    int device() const { return device_; }
    cudaMemPool_t pool() const { return pool_; }

    // The device must be the current one.
    std::unique_ptr<Streams> take() {
        const std::scoped_lock lock(mutex_);
        if (pool_ == nullptr) make_pool();
        if (idle_.empty()) return std::make_unique<Streams>();
        std::unique_ptr<Streams> streams = std::move(idle_.back());
        idle_.pop_back();
        return streams;
    }
    void put(std::unique_ptr<Streams> streams) {
        const std::scoped_lock lock(mutex_);
        idle_.push_back(std::move(streams));
    }

private:
    void make_pool() {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = device_;
        APSCOPE_CUDA(cudaMemPoolCreate(&pool_, &properties));
        std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
        APSCOPE_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
    }

    int device_;
    std::mutex mutex_;
    cudaMemPool_t pool_ = nullptr;
    std::vector<std::unique_ptr<Streams>> idle_;
};

// Values on their way back.
template <class T>
class Landing {
public:
    Landing(Streams& streams, const T* from, std::uint64_t n) : streams_(&streams), count_(n) {
        if (n == 0) return;
        memory_ = streams.landing(n * sizeof(T));
        APSCOPE_CUDA(cudaMemcpyAsync(memory_->data, from, n * sizeof(T), cudaMemcpyDeviceToHost,
                                     streams.work));
        memory_->copied.record(streams.work);
    }
    Landing(Landing&&) noexcept = default;
    Landing& operator=(Landing&&) = delete;
    ~Landing() {
        if (memory_) streams_->idle.push_back(std::move(memory_));
    }
    // Waits for the values.
    std::span<const T> get() const {
        if (!memory_) return {};
        memory_->copied.wait();
        return {static_cast<const T*>(memory_->data), count_};
    }

private:
    Streams* streams_;
    std::uint64_t count_;
    std::unique_ptr<PinnedMemory> memory_;
};

class StreamQueue {
public:
    explicit StreamQueue(StreamCache& cache)
        : device_(cache.device()), cache_(cache), streams_(cache.take()) {}
    StreamQueue(const StreamQueue&) = delete;
    StreamQueue& operator=(const StreamQueue&) = delete;
    ~StreamQueue() { cache_.put(std::move(streams_)); }

    template <class T>
    DeviceMemory<T> allocate(std::uint64_t n) {
        return DeviceMemory<T>(n, streams_->work, cache_.pool());
    }
    template <class T>
    void copy(const T* host, std::uint64_t n, T* to) {
        streams_->copy(host, n * sizeof(T), to);
    }
    template <class Step>
    void launch(const Step& step) {
        detail::launch(step, streams_->work);
    }
    template <class T>
    Landing<T> read(const T* from, std::uint64_t n) {
        return Landing<T>(*streams_, from, n);
    }
    void copies_wait_for_work() {
        streams_->worked.record(streams_->work);
        streams_->worked.hold(streams_->copies);
    }
    void work_waits_for_copies() {
        streams_->copied.record(streams_->copies);
        streams_->copied.hold(streams_->work);
    }
    void finish() noexcept {
        cudaStreamSynchronize(streams_->copies);
        cudaStreamSynchronize(streams_->work);
    }

private:
    CurrentDevice device_;
    StreamCache& cache_;
    std::unique_ptr<Streams> streams_;
};

}  // namespace apscope::detail
