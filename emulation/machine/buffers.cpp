#include "emulation/machine/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

namespace apscope::detail {

// The header before a buffer. It is one cache line long, so that buffers begin at a cache line.
struct alignas(64) BufferPool::Block {
    std::size_t size;  // bytes of the mapping, including this header; 0 for a buffer on the heap
};

namespace {

constexpr std::size_t shortest = std::size_t{1} << 14;  // shortest buffer from a pool, in bytes
constexpr std::size_t kept = std::size_t{1} << 23;      // bytes that a pool may have in any case
constexpr std::size_t page = std::size_t{1} << 12, huge_page = std::size_t{1} << 21;

// Rounds a size up to one of four sizes per power of two, so that tensors of different lengths can
// use the same blocks.
std::size_t rounded_up(std::size_t size) {
    const std::size_t step = std::max(page, std::bit_floor(size) / 4);
    return (size + step - 1) / step * step;
}

thread_local BufferPool* current = nullptr;

}  // namespace

UsesBuffers::UsesBuffers(BufferPool& pool) : before_(current) { current = &pool; }
UsesBuffers::~UsesBuffers() { current = before_; }

// A mapping of at least one huge page begins at the start of a huge page.
BufferPool::Block* BufferPool::map(std::size_t size) {
    const std::size_t extra = size < huge_page ? 0 : huge_page;
    void* mapping =
        ::mmap(nullptr, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    auto* begin = static_cast<std::byte*>(mapping);
    if (extra != 0) {
        const std::size_t before =
            (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
        if (before != 0) ::munmap(begin, before);
        ::munmap(begin + before + size, extra - before);
        begin += before;
#ifdef MADV_HUGEPAGE
        ::madvise(begin, size, MADV_HUGEPAGE);
#endif
    }
    return new (begin) Block{size};
}

void BufferPool::unmap(Block* block) noexcept { ::munmap(block, block->size); }

void BufferPool::free_on_heap(Block* block) noexcept {
    ::operator delete(block, std::align_val_t{alignof(Block)});
}

void BufferPool::trim(std::size_t bytes) {
    while (!idle_.empty() && held() > bytes) {
        const auto largest = std::prev(idle_.end());
        idle_bytes_ -= largest->first;
        unmap(largest->second);
        idle_.erase(largest);
    }
}

BufferPool::Block* BufferPool::take(std::size_t size) {
    size = rounded_up(size + sizeof(Block));
    const auto fits = idle_.lower_bound(size);
    Block* block = nullptr;
    if (fits != idle_.end() && fits->first <= size + size / 4) {
        block = fits->second;
        idle_bytes_ -= block->size;
        idle_.erase(fits);
    } else {
        const std::size_t most = std::max({most_in_blocks_, in_blocks_ + size, kept});
        trim(most - size);
        block = map(size);
    }
    in_blocks_ += block->size;
    most_in_blocks_ = std::max(most_in_blocks_, in_blocks_);
    return block;
}

void BufferPool::give(Block* block) noexcept {
    in_blocks_ -= std::min(in_blocks_, block->size);
    try {
        idle_.emplace(block->size, block);
        idle_bytes_ += block->size;
    } catch (...) {
        unmap(block);
    }
}

void* take_buffer(std::size_t bytes) {
    void* buffer = nullptr;
    if (bytes < shortest) {
        buffer = ::operator new(bytes);
    } else {
        using Block = BufferPool::Block;
        Block* block =
            current != nullptr
                ? current->take(bytes)
                : new (::operator new(bytes + sizeof(Block), std::align_val_t{alignof(Block)}))
                      Block{0};
        buffer = block + 1;
    }
    if (current != nullptr) current->count(bytes);
    return buffer;
}

void give_buffer(void* buffer, std::size_t bytes) noexcept {
    if (current != nullptr) current->discount(bytes);
    if (bytes < shortest) {
        ::operator delete(buffer);
        return;
    }
    auto* block = static_cast<BufferPool::Block*>(buffer) - 1;
    if (block->size == 0) BufferPool::free_on_heap(block);
    else if (current != nullptr) current->give(block);
    else BufferPool::unmap(block);
}

}  // namespace apscope::detail
