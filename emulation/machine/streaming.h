// Stores that bypass the caches, for results that are too large to stay in the caches. An ordinary
// store first reads the cache line that it overwrites; a streaming store does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace apscope::detail {

// Results of at least this number of bytes are streamed.
inline constexpr std::size_t streaming_bytes = std::size_t{1} << 25;

// Does the same as memcpy(), by streaming stores. finish_streaming() orders these before later
// stores, as other threads see them.
inline void copy_streaming(const void* from, void* to, std::size_t bytes) {
#if defined(__x86_64__)
    auto* out = static_cast<unsigned char*>(to);
    const auto* in = static_cast<const unsigned char*>(from);
    std::size_t i = (64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64;
    if (i > bytes) i = bytes;
    std::memcpy(out, in, i);
    for (; i + 64 <= bytes; i += 64) {
        const auto load = [&](std::size_t at) {
            return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + at));
        };
        const __m128i a = load(0), b = load(16), c = load(32), d = load(48);
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), a);
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 16), b);
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 32), c);
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 48), d);
    }
    std::memcpy(out + i, in + i, bytes - i);
#else
    std::memcpy(to, from, bytes);
#endif
}
inline void finish_streaming() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace apscope::detail
