// Signals, which wasm32-wasi does not have: handlers are set and never called.
#pragma once

using siginfo_t = struct {
    int si_code;
    void* si_addr;
};
using sigset_t = unsigned;
using Handler = void (*)(int);

struct sigaction {
    int sa_flags;
    sigset_t sa_mask;
    Handler sa_handler;
    void (*sa_sigaction)(int, siginfo_t*, void*);
};

inline constexpr int SIGBUS = 7, SA_SIGINFO = 1, SA_ONSTACK = 2;
inline constexpr Handler SIG_DFL = nullptr;
inline void ignore_signal(int) {}
inline constexpr Handler SIG_IGN = ignore_signal;

inline int sigemptyset(sigset_t*) { return 0; }
inline int sigaction(int, const struct sigaction*, struct sigaction*) { return 0; }
inline Handler signal(int, Handler) { return SIG_DFL; }
inline int raise(int) { return -1; }
