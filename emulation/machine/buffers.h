// Memory for buffers as long as a tensor. A thread that processes one tensor after another selects
// a pool (UsesBuffers). Its allocations then use memory of the pool and return it there, so that in
// the long run no memory is requested from the kernel. Without a pool, and for short buffers,
// allocations use the heap.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <new>
#include <utility>
#include <vector>

namespace apscope::detail {

// Memory blocks, for one thread at a time. A pool has at most as much memory as was ever in use at
// one time, or 8 MiB if that is more, so that blocks of many sizes remain for small tensors. It
// uses huge pages if the system provides them.
class BufferPool {
public:
    BufferPool() = default;
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    ~BufferPool() { trim(0); }

    // The number of bytes of all blocks, in use or idle.
    std::size_t held() const { return in_blocks_ + idle_bytes_; }
    // Unmaps idle blocks, the largest first, until all blocks have at most `bytes` bytes together
    // or no block is idle.
    void trim(std::size_t bytes);

    // The requested bytes in use, including short buffers: now, and at most since the pool was
    // constructed.
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
    // Another pool may have counted the buffer when it was allocated.
    void discount(std::size_t bytes) noexcept { used_ -= bytes < used_ ? bytes : used_; }

    std::multimap<std::size_t, Block*> idle_;  // idle blocks by size
    std::size_t idle_bytes_ = 0, in_blocks_ = 0, most_in_blocks_ = 0;
    std::size_t used_ = 0, most_used_ = 0;
};

// During the lifetime of this object, the thread that constructed it allocates buffers from the
// pool.
class UsesBuffers {
public:
    explicit UsesBuffers(BufferPool& pool);
    ~UsesBuffers();
    UsesBuffers(const UsesBuffers&) = delete;
    UsesBuffers& operator=(const UsesBuffers&) = delete;

private:
    BufferPool* before_;
};

// Allocate and release a buffer. take_buffer() throws std::bad_alloc if memory is exhausted. Any
// thread may call give_buffer(), with the size that take_buffer() received.
void* take_buffer(std::size_t bytes);
void give_buffer(void* buffer, std::size_t bytes) noexcept;

template <class T>
struct BufferAllocator {
    using value_type = T;

    BufferAllocator() = default;
    template <class U>
    BufferAllocator(const BufferAllocator<U>&) noexcept {
    }  // NOLINT(misc-explicit-constructor): allocators of the C++ standard convert implicitly

    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T*>(take_buffer(count * sizeof(T)));
    }
    void deallocate(T* buffer, std::size_t count) noexcept {
        give_buffer(buffer, count * sizeof(T));
    }

    // Leaves numbers uninitialised, because every buffer is written before it is read. Under the
    // address sanitizer, the numbers become NaN.
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

// A vector with memory of a pool. Buffer<T>(n) and resize(n) leave new numbers uninitialised;
// Buffer<T>(n, 0.0) initialises them.
template <class T>
using Buffer = std::vector<T, BufferAllocator<T>>;

}  // namespace apscope::detail
