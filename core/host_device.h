// APSCOPE_HD marks a function that runs on the host and, with nvcc, also on the device.
#pragma once

#if defined(__CUDACC__)
#define APSCOPE_HD __host__ __device__ __forceinline__
#else
#define APSCOPE_HD inline __attribute__((always_inline))
#endif
