# WebAssembly with the files of WASI, without threads and exceptions: by the compiler of PyPI's
# package ziglang, whose commands .ci/portable.sh puts into build/portable/zig/.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(CMAKE_CXX_COMPILER "${root}/build/portable/zig/c++")
set(CMAKE_AR "${root}/build/portable/zig/ar")
set(CMAKE_RANLIB "${root}/build/portable/zig/ranlib")
set(CMAKE_EXECUTABLE_SUFFIX_CXX .wasm)
set(Threads_FOUND TRUE)

# Its standard library is built without files, but has their sources: missing.cpp.
set(wasm "${CMAKE_CURRENT_LIST_DIR}/wasm")
set(CMAKE_CXX_FLAGS_INIT "-target wasm32-wasi -D_LIBCPP_HAS_FILESYSTEM=1 -Wno-macro-redefined -I${wasm} -include ${wasm}/one_thread.h")
