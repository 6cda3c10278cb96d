// The choice of vector instructions for kernels. A kernel is a struct with a static run(), a plain
// loop over elements. simd::run<Kernel>(...) below compiles the kernel for each level and chooses a
// level at run time. Every level gives the same bits.
#pragma once

#include <string_view>

namespace apscope::detail {

enum class SimdLevel { portable, sse4, avx2, avx512 };

// The level in use: the best level of this machine, or a lower level that the environment variable
// APSCOPE_SIMD (portable, sse4, avx2, avx512) or set_simd_level() selects.
SimdLevel simd_level();
SimdLevel best_simd_level();
// Selects a level. Throws std::invalid_argument for a level that this machine does not support.
void set_simd_level(SimdLevel level);
std::string_view to_string(SimdLevel level);
SimdLevel parse_simd_level(std::string_view name);

}  // namespace apscope::detail

// Function attributes of the levels. A kernel's run() must be always_inline, so that it is compiled
// with the attributes of the function into which it is inlined.
#define APSCOPE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define APSCOPE_TARGET_SSE4 __attribute__((target("sse4.2,popcnt")))
#define APSCOPE_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#if defined(__clang__)  // clang does not know prefer-vector-width and would ignore the attribute
#define APSCOPE_TARGET_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt")))
#else
#define APSCOPE_TARGET_AVX512                                                                  \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt," \
                          "prefer-vector-width=512")))
#endif
#else
#define APSCOPE_TARGET_SSE4
#define APSCOPE_TARGET_AVX2
#define APSCOPE_TARGET_AVX512
#endif

// Runs Kernel::run(args...) compiled for the level in use: `Kernel` is a struct with an
// always_inline static run().
namespace apscope::detail::simd {
template <class Kernel, class... Args>
void run_portable(Args... args) {
    Kernel::run(args...);
}
template <class Kernel, class... Args>
APSCOPE_TARGET_SSE4 void run_sse4(Args... args) {
    Kernel::run(args...);
}
template <class Kernel, class... Args>
APSCOPE_TARGET_AVX2 void run_avx2(Args... args) {
    Kernel::run(args...);
}
template <class Kernel, class... Args>
APSCOPE_TARGET_AVX512 void run_avx512(Args... args) {
    Kernel::run(args...);
}

template <class Kernel, class... Args>
void run_at(SimdLevel level, Args... args) {
    switch (level) {
        case SimdLevel::portable: return run_portable<Kernel>(args...);
        case SimdLevel::sse4: return run_sse4<Kernel>(args...);
        case SimdLevel::avx2: return run_avx2<Kernel>(args...);
        case SimdLevel::avx512: return run_avx512<Kernel>(args...);
    }
}
template <class Kernel, class... Args>
void run(Args... args) {
    run_at<Kernel>(simd_level(), args...);
}
}  // namespace apscope::detail::simd
