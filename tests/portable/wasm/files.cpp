// Files, which zig's standard library for wasm32-wasi lacks, from the sources that come with it.
#define _LIBCPP_BUILDING_LIBRARY
#include <sys/types.h>

#include <cerrno>
#include <fstream>

inline ssize_t copy_file_range(int, off_t*, int, off_t*, size_t, unsigned) {  // of Linux
    errno = ENOSYS;
    return -1;
}

#include <../src/filesystem/filesystem_error.cpp>
#include <../src/filesystem/operations.cpp>
#include <../src/filesystem/path.cpp>

template class std::basic_filebuf<char>;
template class std::basic_ifstream<char>;
