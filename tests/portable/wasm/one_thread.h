// Parts that the standard library for wasm32-wasi, which has no threads, lacks: the same for one
// thread, which never waits. Comes before every source of that build.
#pragma once

#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

namespace std {

class mutex {
public:
    void lock() {}
    void unlock() {}
    bool try_lock() { return true; }
};

struct condition_variable {
    void notify_one() {}
    void notify_all() {}
    template <class Lock, class Ready>
    void wait(Lock&, Ready ready) {
        if (!ready()) throw logic_error("the only thread waits for another");
    }
};

struct thread {
    static unsigned hardware_concurrency() { return 1; }
    template <class... Arguments>
    explicit thread(Arguments&&...) {
        throw logic_error("this build has one thread; ask for no more");
    }
    void join() {}
};

enum class launch { async = 1, deferred = 2 };

template <class Result>
struct future {
    Result result;
    Result get() { return std::move(result); }
};

template <class Work, class... Arguments>
future<invoke_result_t<Work, Arguments...>> async(launch, Work&& work, Arguments&&... arguments) {
    return {std::forward<Work>(work)(std::forward<Arguments>(arguments)...)};
}

}  // namespace std
