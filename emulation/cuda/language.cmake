# The CUDA language and its flags. A language holds in the folder that enables it and below: this is
# included from the top.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "APSCOPE_CUDA is ON, but no CUDA compiler was found; put nvcc on the PATH or set CMAKE_CUDA_COMPILER")
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# Libraries leave CUDA's runtime to the programs: NVIDIA's, or one that runs kernels on the host
# (tests/cuda/interpreter).
set(CMAKE_CUDA_RUNTIME_LIBRARY None)

# CMake 3.25 knows no CUDA C++20: where the standard is not required it passes no -std at all.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(standard_by_hand -std=c++20)
endif()

# Bit identity: no fused multiply-adds, no flush to zero, quotients and roots rounded once.
add_library(apscope_cuda_flags INTERFACE)
target_compile_options(apscope_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:${standard_by_hand};-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${APSCOPE_WERROR}>>:-Werror=all-warnings>)
