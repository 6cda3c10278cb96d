// Called functions that wasm32-wasi lacks: exceptions, which end the program, and ends of threads.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

extern "C" {

void* __cxa_allocate_exception(std::size_t size) { return std::malloc(size); }

// Thrown objects here begin with a std::exception.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
    std::fprintf(stderr, "%s\n", static_cast<const std::exception*>(thrown)->what());
    std::abort();
}

// The one thread ends with the program.
int __cxa_atexit(void (*function)(void*), void* object, void* module);
int __cxa_thread_atexit(void (*function)(void*), void* object, void* module) {
    return __cxa_atexit(function, object, module);
}
}
