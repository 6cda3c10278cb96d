#include "emulation/machine/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/float_environment.h"

namespace apscope::detail {
namespace {

// Joins the threads at its end, as std::jthread does, which libc++ has only since version 20.
struct Threads {
    std::vector<std::thread> running;
    ~Threads() {
        for (std::thread& one : running) one.join();
    }
};

}  // namespace

int thread_count(int requested) {
    if (requested < 0) {
        throw std::invalid_argument("threads=" + std::to_string(requested) +
                                    " is negative; use 0 for all of the machine's");
    }
    if (requested > 0) return requested;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& progress) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr failure;
    std::mutex failure_mutex;

    const auto run = [&](bool reports) {
        const FloatEnvironment environment;
        try {
            while (!stop.load(std::memory_order_relaxed)) {
                const std::size_t item = next.fetch_add(1, std::memory_order_relaxed);
                if (item >= count) break;
                work(item);
                if (reports && progress)
                    progress(std::min(next.load(std::memory_order_relaxed), count));
            }
        } catch (...) {
            stop.store(true, std::memory_order_relaxed);
            const std::lock_guard lock(failure_mutex);
            if (!failure) failure = std::current_exception();
        }
    };

    const std::size_t running = std::min<std::size_t>(
        static_cast<std::size_t>(thread_count(threads)), std::max<std::size_t>(count, 1));
    {
        Threads others;
        try {
            for (std::size_t i = 1; i < running; ++i) others.running.emplace_back(run, false);
        } catch (...) {
            stop = true;  // a thread could not start; the others end after their item
            throw;
        }
        run(true);
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace apscope::detail
