// Rounds one piece of an array that is too large for the caches: numbers are rounded to a buffer in
// the first-level cache, then streamed to memory in complete cache lines.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulation/cast/quantize_job.h"
#include "emulation/machine/simd.h"
#include "emulation/machine/streaming.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace apscope::detail {

namespace {

constexpr std::size_t line_bytes = 64;

#if defined(__x86_64__)
// Does the same as copy_streaming() for complete cache lines, with one store per line.
APSCOPE_TARGET_AVX512 void stream_lines_avx512(const void* from, void* to, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += line_bytes) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(static_cast<unsigned char*>(to) + i),
                            _mm512_loadu_si512(static_cast<const unsigned char*>(from) + i));
    }
}
#endif

void stream_lines(const void* from, void* to, std::size_t bytes) {
#if defined(__x86_64__)
    if (simd_level() == SimdLevel::avx512) return stream_lines_avx512(from, to, bytes);
#endif
    copy_streaming(from, to, bytes);
}

}  // namespace

// Random words are drawn for complete Philox blocks, so a step ends at the end of a block. Rounded
// numbers that do not fill a cache line are stored in the next step.
template <class Real>
void streamed_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count) {
    constexpr std::size_t step = 512, line = line_bytes / sizeof(Real);
    if (count < step) return quantize_piece<Real>(job, in, out, begin, count);
    alignas(line_bytes) Real rounded[line + step];
    // The number of elements of the first cache line that precede `out`.
    const std::size_t before = reinterpret_cast<std::uintptr_t>(out) / sizeof(Real) % line;
    const std::size_t first = before > 0 ? line - before : 0;  // the number of elements of `out` in
                                                               // that line
    std::size_t held = before, skipped = before + first;
    // With stochastic rounding, a step takes so many instructions that the processor does not load
    // the numbers of the next step ahead of time, so these numbers are prefetched. The bulk drawing
    // of words prefetches the numbers itself (random_words.h); fp64 numbers need no prefetch.
    const bool fetches = std::is_same_v<Real, float> && is_stochastic(job.plan.cast.rounding) &&
                         !job.plan.words_in_bulk;
    for (std::size_t i = 0; i < count;) {
        const std::size_t n = std::min(step, count - i), filled = held + n,
                          whole = filled - filled % line;
        if (fetches) {
            for (std::size_t next = i + n; next < std::min(i + n + step, count); next += line)
                __builtin_prefetch(in + next);
        }
        quantize_piece<Real>(job, in + i, rounded + held, begin + i, n);
        if (i == 0) std::memcpy(out, rounded + before, first * sizeof(Real));
        stream_lines(rounded + skipped, out + (i + skipped - held),
                     (whole - skipped) * sizeof(Real));
        std::memmove(rounded, rounded + whole, (filled - whole) * sizeof(Real));
        i += n;
        held = filled - whole;
        skipped = 0;
    }
    std::memcpy(out + (count - held), rounded, held * sizeof(Real));
    finish_streaming();
}
template void streamed_piece(const QuantizeJob<float>&, const float*, float*, std::size_t,
                             std::size_t);
template void streamed_piece(const QuantizeJob<double>&, const double*, double*, std::size_t,
                             std::size_t);

}  // namespace apscope::detail
