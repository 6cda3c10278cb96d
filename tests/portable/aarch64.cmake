# Cross-compiled by Debian's g++-aarch64-linux-gnu into programs that need no library at run time:
# qemu-aarch64 runs them as they are.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
