// Memory for buffers as long as a tensor. A thread that works on one tensor after another sets its
// pool (UsesBuffers); its allocations then come from that pool and return to it, so in steady state
// nothing is requested from the kernel. Without a pool, and for short buffers, the heap is used.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <new>
#include <utility>
#include <vector>

namespace apscope::detail {

// Memory blocks for one thread at a time. A pool keeps at most as much memory as was ever in use at
// once, or 8 MiB if that is more, so that blocks of many lengths remain for small tensors. It uses
// huge pages if the system provides them.
class BufferPool {
public:
    BufferPool() = default;
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    ~BufferPool() { trim(0); }

    // The bytes of all blocks, in use or idle.
    std::size_t held() const { return in_blocks_ + idle_bytes_; }
    // Unmaps idle blocks, the largest first, until at most `bytes` remain.
    void trim(std::size_t bytes);

    // Requested bytes, including short buffers: now, and the maximum since the pool was made.
    std::size_t used() const { return used_; }
    std::size_t most_used() const { return most_used_; }

private:
    friend void* take_buffer(std::size_t);
    friend void give_buffer(void*, std::size_t) noexcept;
    struct Block;
    static Block* map(std::size_t size);
    static void unmap(Block* block) noexcept;
    static void free_on_heap(Block* block) noexcept;
    Block* take(std::size_t size);
    void give(Block* block) noexcept;
    void count(std::size_t bytes) {
        used_ += bytes;
        if (used_ > most_used_) most_used_ = used_;
    }
    // A returned buffer may have been counted by another pool.
    void discount(std::size_t bytes) noexcept { used_ -= bytes < used_ ? bytes : used_; }

    std::multimap<std::size_t, Block*> idle_;  // idle blocks by size
    std::size_t idle_bytes_ = 0, in_blocks_ = 0, most_in_blocks_ = 0;
    std::size_t used_ = 0, most_used_ = 0;
};

// During its lifetime, the calling thread takes its buffers from the pool.
class UsesBuffers {
public:
    explicit UsesBuffers(BufferPool& pool);
    ~UsesBuffers();
    UsesBuffers(const UsesBuffers&) = delete;
    UsesBuffers& operator=(const UsesBuffers&) = delete;

private:
    BufferPool* before_;
};

// take_buffer() throws std::bad_alloc if there is no memory. Any thread may call give_buffer().
void* take_buffer(std::size_t bytes);
void give_buffer(void* buffer, std::size_t bytes) noexcept;

template <class T>
struct BufferAllocator {
    using value_type = T;

    BufferAllocator() = default;
    template <class U>
    BufferAllocator(const BufferAllocator<U>&) noexcept {
    }  // NOLINT(misc-explicit-constructor): as the standard's allocators convert

    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T*>(take_buffer(count * sizeof(T)));
    }
    void deallocate(T* buffer, std::size_t count) noexcept {
        give_buffer(buffer, count * sizeof(T));
    }

    // Numbers without an initial value are not initialised, because buffers as long as a tensor are
    // written once. Under the address sanitizer they are NaN.
    template <class U>
    void construct(U* at) noexcept {
        ::new (static_cast<void*>(at)) U;
#ifdef __SANITIZE_ADDRESS__
        __builtin_memset(static_cast<void*>(at), 0xFF, sizeof(U));
#endif
    }
    template <class U, class... Given>
    void construct(U* at, Given&&... given) {
        ::new (static_cast<void*>(at)) U(std::forward<Given>(given)...);
    }

    friend bool operator==(const BufferAllocator&, const BufferAllocator&) { return true; }
};

// Buffer<T>(n) and resize(n) leave new numbers uninitialised; Buffer<T>(n, 0.0) sets them.
template <class T>
using Buffer = std::vector<T, BufferAllocator<T>>;

}  // namespace apscope::detail
