// The processor's own conversions, over arrays: VCVTPS2PH (F16C) in its four rounding modes, and
// VCVTNEPS2BF16 (AVX-512 BF16).
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

namespace {

template <int mode>
__attribute__((target("avx,f16c"))) void to_half(const float* x, std::uint16_t* codes,
                                                 std::size_t n) {
    for (std::size_t i = 0; i < n; i += 8) {
        alignas(32) float in[8] = {};
        alignas(16) std::uint16_t out[8];
        const std::size_t here = n - i < 8 ? n - i : 8;
        std::memcpy(in, x + i, here * sizeof(float));
        _mm_store_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(_mm256_load_ps(in), mode));
        std::memcpy(codes + i, out, here * sizeof(std::uint16_t));
    }
}

}  // namespace

extern "C" void f16c(const float* x, std::uint16_t* codes, std::size_t n, int mode) {
    switch (mode) {
        case 0: return to_half<_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC>(x, codes, n);
        case 1: return to_half<_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC>(x, codes, n);
        case 2: return to_half<_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC>(x, codes, n);
        default: return to_half<_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC>(x, codes, n);
    }
}

extern "C" __attribute__((target("avx512f,avx512bf16"))) void bf16(const float* x,
                                                                   std::uint16_t* codes,
                                                                   std::size_t n) {
    for (std::size_t i = 0; i < n; i += 16) {
        float in[16] = {};
        std::uint16_t out[16];
        const std::size_t here = n - i < 16 ? n - i : 16;
        std::memcpy(in, x + i, here * sizeof(float));
        const __m256bh result = _mm512_cvtneps_pbh(_mm512_loadu_ps(in));
        std::memcpy(out, &result, sizeof(out));
        std::memcpy(codes + i, out, here * sizeof(std::uint16_t));
    }
}

extern "C" int has_f16c() { return __builtin_cpu_supports("f16c") != 0; }
extern "C" int has_bf16() { return __builtin_cpu_supports("avx512bf16") != 0; }
#else
extern "C" int has_f16c() { return 0; }
extern "C" int has_bf16() { return 0; }
#endif
