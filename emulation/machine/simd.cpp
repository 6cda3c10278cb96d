#include "emulation/machine/simd.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, 4> names = {"portable", "sse4", "avx2", "avx512"};

SimdLevel initial_level() {
    const char* wanted = std::getenv("APSCOPE_SIMD");
    if (wanted == nullptr || *wanted == '\0') return best_simd_level();
    const SimdLevel level = parse_simd_level(wanted);
    if (level > best_simd_level()) {
        throw std::invalid_argument("APSCOPE_SIMD=" + std::string(wanted) + " is more than this machine has; its best is " +
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
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return SimdLevel::avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) return SimdLevel::avx2;
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
    throw std::invalid_argument("unknown instruction set '" + std::string(name) + "'; use portable, sse4, avx2 or avx512");
}

}  // namespace apscope::detail
