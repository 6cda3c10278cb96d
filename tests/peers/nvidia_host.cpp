// NVIDIA's conversion functions as a host compiler sees them, over arrays. Compiled with a plain
// C++ compiler against the headers of a CUDA installation, which the tests do not ship.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

namespace {

template <class From, class To, class Convert>
void convert_all(const From* x, To* codes, std::size_t n, Convert convert) {
    for (std::size_t i = 0; i < n; ++i) codes[i] = static_cast<To>(convert(x[i]));
}

std::uint16_t code_of(__half h) { return static_cast<__half_raw>(h).x; }
std::uint16_t code_of(__nv_bfloat16 b) { return static_cast<__nv_bfloat16_raw>(b).x; }

}  // namespace

#define SMALL_FORMAT(NAME, FROM, CALL)                                                 \
    extern "C" void NAME(const FROM* x, std::uint8_t* codes, std::size_t n, int first, \
                         int second) {                                                 \
        convert_all(x, codes, n, [=](FROM v) { return CALL; });                        \
    }
#define HALF_FORMAT(NAME, FROM)                                                          \
    extern "C" void apscope_##NAME(const FROM* x, std::uint16_t* codes, std::size_t n) { \
        convert_all(x, codes, n, [](FROM v) { return code_of(NAME(v)); });               \
    }

// The two integers are the enumerators that the function takes, in its order.
#define SATURATION static_cast<__nv_saturation_t>(first)
#define ROUNDING static_cast<cudaRoundMode>(second)
SMALL_FORMAT(float_to_fp8, float,
             __nv_cvt_float_to_fp8(v, SATURATION, static_cast<__nv_fp8_interpretation_t>(second)))
SMALL_FORMAT(double_to_fp8, double,
             __nv_cvt_double_to_fp8(v, SATURATION, static_cast<__nv_fp8_interpretation_t>(second)))
SMALL_FORMAT(float_to_fp6, float,
             __nv_cvt_float_to_fp6(v, static_cast<__nv_fp6_interpretation_t>(first), ROUNDING))
SMALL_FORMAT(double_to_fp6, double,
             __nv_cvt_double_to_fp6(v, static_cast<__nv_fp6_interpretation_t>(first), ROUNDING))
SMALL_FORMAT(float_to_fp4, float,
             __nv_cvt_float_to_fp4(v, static_cast<__nv_fp4_interpretation_t>(first), ROUNDING))
SMALL_FORMAT(double_to_fp4, double,
             __nv_cvt_double_to_fp4(v, static_cast<__nv_fp4_interpretation_t>(first), ROUNDING))
SMALL_FORMAT(float_to_e8m0, float, __nv_cvt_float_to_e8m0(v, SATURATION, ROUNDING))
SMALL_FORMAT(double_to_e8m0, double, __nv_cvt_double_to_e8m0(v, SATURATION, ROUNDING))

HALF_FORMAT(__float2half_rn, float)
HALF_FORMAT(__float2half_rz, float)
HALF_FORMAT(__float2half_ru, float)
HALF_FORMAT(__float2half_rd, float)
HALF_FORMAT(__double2half, double)
HALF_FORMAT(__float2bfloat16_rn, float)
HALF_FORMAT(__float2bfloat16_rz, float)
HALF_FORMAT(__float2bfloat16_ru, float)
HALF_FORMAT(__float2bfloat16_rd, float)
HALF_FORMAT(__double2bfloat16, double)

// The enumerators' values, by name, so that no other file needs to know them.
extern "C" int enumerator(const char* name) {
    const struct {
        const char* name;
        int value;
    } all[] = {
        {"__NV_NOSAT", __NV_NOSAT},       {"__NV_SATFINITE", __NV_SATFINITE},
        {"__NV_E4M3", __NV_E4M3},         {"__NV_E5M2", __NV_E5M2},
        {"__NV_E2M3", __NV_E2M3},         {"__NV_E3M2", __NV_E3M2},
        {"__NV_E2M1", __NV_E2M1},         {"cudaRoundNearest", cudaRoundNearest},
        {"cudaRoundZero", cudaRoundZero}, {"cudaRoundPosInf", cudaRoundPosInf},
    };
    for (const auto& e : all)
        if (std::strcmp(e.name, name) == 0) return e.value;
    return -1;
}

extern "C" int headers_version() { return CUDART_VERSION; }
