// Limits of a process, which wasm32-wasi does not have.
#pragma once

struct rlimit {
    unsigned long rlim_cur;
};
inline constexpr int RLIMIT_AS = 9;
inline constexpr unsigned long RLIM_INFINITY = ~0ul;
inline int getrlimit(int, rlimit*) { return -1; }
