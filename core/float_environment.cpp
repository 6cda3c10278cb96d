#include "core/float_environment.h"

#include <cfenv>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace apscope {

#if defined(__SSE2__)
// MXCSR: bits 13-14 rounding, 15 flush results to zero, 6 read subnormals as zero.
FloatEnvironment::FloatEnvironment() : saved_control_(_mm_getcsr()) {
    _mm_setcsr(static_cast<unsigned>(saved_control_) & ~0xE040u);
}
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_control_)); }
#elif defined(__aarch64__)
// FPCR: bits 22-23 rounding, 24 flush to zero.
FloatEnvironment::FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_control_));
    asm volatile("msr fpcr, %0" ::"r"(saved_control_ & ~(std::uint64_t{7} << 22)));
}
FloatEnvironment::~FloatEnvironment() { asm volatile("msr fpcr, %0" ::"r"(saved_control_)); }
#else
FloatEnvironment::FloatEnvironment() : saved_control_(static_cast<std::uint64_t>(std::fegetround())) {
    std::fesetround(FE_TONEAREST);
}
FloatEnvironment::~FloatEnvironment() { std::fesetround(static_cast<int>(saved_control_)); }
#endif

}  // namespace apscope
