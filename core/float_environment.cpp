#include "core/float_environment.h"

#include <cfenv>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace apscope::detail {

#if defined(__SSE2__)
// Sets both control words to the values with which a process starts. MXCSR: bits 13-14 are the
// rounding, 15 flushes results to zero, 6 reads subnormals as zero, 7-12 mask the exceptions, 0-5
// record them. In the x87's control word, bits 10-11 are the rounding and bits 0-5 the masks.
// apscope does not compute with the x87, but the C library uses the x87's rounding when it reads
// decimals.
FloatEnvironment::FloatEnvironment() {
    std::uint16_t x87 = 0;
    asm volatile("fnstcw %0" : "=m"(x87));
    saved_control_ = std::uint64_t{x87} << 32 | _mm_getcsr();
    constexpr std::uint16_t x87_default = 0x037F;
    if (x87 != x87_default) asm volatile("fldcw %0" ::"m"(x87_default));
    _mm_setcsr(0x1F80);
}
FloatEnvironment::~FloatEnvironment() {
    const auto x87 = static_cast<std::uint16_t>(saved_control_ >> 32);
    if (x87 != 0x037F) asm volatile("fldcw %0" ::"m"(x87));
    _mm_setcsr(static_cast<unsigned>(saved_control_));
}
#elif defined(__aarch64__)
// Sets FPCR to the value with which a process starts, 0: bits 22-23 round to nearest, bit 24
// flushes nothing to zero, bits 8-15 trap no exception.
FloatEnvironment::FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_control_));
    asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}));
}
FloatEnvironment::~FloatEnvironment() { asm volatile("msr fpcr, %0" ::"r"(saved_control_)); }
#else
FloatEnvironment::FloatEnvironment()
    : saved_control_(static_cast<std::uint64_t>(std::fegetround())) {
    std::fesetround(FE_TONEAREST);
}
FloatEnvironment::~FloatEnvironment() { std::fesetround(static_cast<int>(saved_control_)); }
#endif

}  // namespace apscope::detail
