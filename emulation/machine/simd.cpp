#include "emulation/machine/simd.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "core/float_environment.h"

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, 4> names = {"portable", "sse4", "avx2", "avx512"};

// Computes x * x - 1. For x = 1 + 2^-30 the result is 2^-29, or slightly more if the compiler has
// fused the two operations.
struct ProductsLessOne {
    static APSCOPE_INLINE void run(const double* x, double* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = x[i] * x[i] - 1.0;
    }
};

// The option -ffp-contract, which is on by default, changes bits, and no macro tells its value. So
// this function tests the machine code of every level.
void refuse_fused_operations() {
    const FloatEnvironment environment;
    for (const SimdLevel level :
         {SimdLevel::portable, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
        if (level > best_simd_level()) break;
        std::array<double, 17> x, rounded;  // several vectors and a remainder
        x.fill(1.0 + 0x1p-30);
        const double* in = x.data();
        double* out = rounded.data();
        // Prevents the compiler from computing the result in advance.
        asm volatile("" : "+r"(in), "+r"(out) : : "memory");
        simd::run_at<ProductsLessOne>(level, in, out, x.size());
        for (const double y : rounded) {
            if (y != 0x1p-29) {
                throw std::runtime_error("this build fuses multiplications with additions, which "
                                         "changes results; compile apscope with -ffp-contract=off");
            }
        }
    }
}

SimdLevel initial_level() {
    refuse_fused_operations();
    const char* name = std::getenv("APSCOPE_SIMD");
    if (name == nullptr || *name == '\0') return best_simd_level();
    const SimdLevel level = parse_simd_level(name);
    if (level > best_simd_level()) {
        throw std::invalid_argument("APSCOPE_SIMD=" + std::string(name) +
                                    " is more than this machine has; its best is " +
                                    std::string(to_string(best_simd_level())));
    }
    return level;
}

std::atomic<SimdLevel>& level_in_use() {
    static std::atomic<SimdLevel> level{initial_level()};
    return level;
}

}  // namespace

SimdLevel best_simd_level() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return SimdLevel::avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        return SimdLevel::avx2;
    if (__builtin_cpu_supports("sse4.2")) return SimdLevel::sse4;
#endif
    return SimdLevel::portable;
}

SimdLevel simd_level() { return level_in_use().load(std::memory_order_relaxed); }

void set_simd_level(SimdLevel level) {
    if (level > best_simd_level()) {
        throw std::invalid_argument("the instruction set '" + std::string(to_string(level)) +
                                    "' is more than this machine has; its best is '" +
                                    std::string(to_string(best_simd_level())) + "'");
    }
    level_in_use().store(level, std::memory_order_relaxed);
}

std::string_view to_string(SimdLevel level) { return names[static_cast<std::size_t>(level)]; }

SimdLevel parse_simd_level(std::string_view name) {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name) return static_cast<SimdLevel>(i);
    }
    throw std::invalid_argument("unknown instruction set '" + std::string(name) +
                                "'; use portable, sse4, avx2 or avx512");
}

}  // namespace apscope::detail
