// APSCOPE_CUDA turns a CUDA call that fails into an exception that names the call and CUDA's
// reason.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace apscope::detail {

inline void check_cuda(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // clears the error, which the next CUDA call would report again
    if (error == cudaErrorInsufficientDriver) {
        throw std::runtime_error(
            std::string("the driver of this machine's GPU is older than the CUDA that apscope was "
                        "built with; update the driver"));
    }
    throw std::runtime_error(std::string("the CUDA call ") + call + " failed with " +
                             cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
}

}  // namespace apscope::detail

#define APSCOPE_CUDA(call) ::apscope::detail::check_cuda(call, #call)
