#include "analysis/bench/bench_floors.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "emulation/machine/parallel.h"
#include "emulation/machine/simd.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

namespace {

constexpr std::size_t piece = std::size_t{1} << 18;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void chains_avx512(float* sink, int count) {
    __m512 chain[12];
    const __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(1e-9f);
    for (__m512& c : chain) c = _mm512_loadu_ps(sink);
    for (int i = 0; i < count; i += 12 * 16) {
        for (__m512& c : chain) c = _mm512_fmadd_ps(c, a, b);
    }
    for (const __m512& c : chain) _mm512_storeu_ps(sink, _mm512_add_ps(c, _mm512_loadu_ps(sink)));
}
__attribute__((target("avx2,fma"))) void chains_avx2(float* sink, int count) {
    __m256 chain[12];
    const __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(1e-9f);
    for (__m256& c : chain) c = _mm256_loadu_ps(sink);
    for (int i = 0; i < count; i += 12 * 8) {
        for (__m256& c : chain) c = _mm256_fmadd_ps(c, a, b);
    }
    for (const __m256& c : chain) _mm256_storeu_ps(sink, _mm256_add_ps(c, _mm256_loadu_ps(sink)));
}
#endif

// The chains for instruction sets without FMA, as separate multiplications and additions.
void chains_portable(float* sink, int count) {
    float chain[48];
    std::copy_n(sink, 48, chain);
    for (int i = 0; i < count; i += 48) {
        for (float& c : chain) c = c * 1.0000001f + 1e-9f;
    }
    std::copy_n(chain, 48, sink);
}

}  // namespace

void copy_in_pieces(std::span<const float> in, std::span<float> out, int threads, bool streaming) {
    const std::size_t pieces = (in.size() + piece - 1) / piece;
    const auto copy = [&](std::size_t p) {
        const std::size_t begin = p * piece, count = std::min(piece, in.size() - begin);
        if (streaming) copy_streaming(in.data() + begin, out.data() + begin, count * sizeof(float));
        else std::memcpy(out.data() + begin, in.data() + begin, count * sizeof(float));
    };
    if (threads == 1) {
        if (streaming) copy_streaming(in.data(), out.data(), in.size() * sizeof(float));
        else std::memcpy(out.data(), in.data(), in.size() * sizeof(float));
        return;
    }
    parallel_pieces(pieces, threads, copy);
}

void multiply_add_peak(std::span<float> sink, int count) {
#if defined(__x86_64__)
    if (simd_level() == SimdLevel::avx512) return chains_avx512(sink.data(), count);
    if (simd_level() == SimdLevel::avx2 && __builtin_cpu_supports("fma"))
        return chains_avx2(sink.data(), count);
#endif
    chains_portable(sink.data(), count);
}

}  // namespace apscope::detail
