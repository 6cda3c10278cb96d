// Mappings, which wasm32-wasi does not have: memory from the heap, into which a file is read.
// munmap() of the beginning frees the complete mapping; munmap() of another part does nothing.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <set>

inline constexpr int PROT_READ = 1, PROT_WRITE = 2, MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_FIXED = 16,
                     MAP_ANONYMOUS = 32, MADV_DONTNEED = 4;
inline void* const MAP_FAILED = reinterpret_cast<void*>(-1);

namespace portable {
inline std::set<void*> mappings;
}

inline void* mmap(void*, std::size_t size, int, int, int file, off_t offset) {
    constexpr std::size_t page = std::size_t{1} << 16;  // WebAssembly's
    const std::size_t whole = (size + page - 1) / page * page;
    void* const memory = std::aligned_alloc(page, whole);
    if (memory == nullptr) return MAP_FAILED;
    portable::mappings.insert(memory);
    std::memset(memory, 0, whole);
    for (std::size_t done = 0; file >= 0 && done < size;) {
        const ssize_t got = ::pread(file, static_cast<char*>(memory) + done, size - done,
                                    offset + static_cast<off_t>(done));
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    return memory;
}

inline int munmap(void* begin, std::size_t) {
    if (portable::mappings.erase(begin) != 0) std::free(begin);
    return 0;
}

inline int madvise(void*, std::size_t, int) { return 0; }
