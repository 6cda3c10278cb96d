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
#include "emulation/machine/processors.h"

namespace apscope::detail {
namespace {

// The threads of one loop. Each takes the next item when it is free. The destructor joins the
// threads, like that of std::jthread, which libc++ has only since version 20.
class Loop {
public:
    Loop(std::size_t count, const std::function<void(std::size_t)>& work)
        : count_(count), work_(work) {}
    ~Loop() { join(); }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    std::size_t threads() const { return others_.size() + 1; }
    // Starts threads until there are `threads`, including the calling thread.
    void start(std::size_t threads) {
        try {
            while (this->threads() < threads)
                others_.emplace_back([this] { run([](std::size_t) {}); });
        } catch (...) {
            stop_ = true;  // a thread could not start; the other threads end after their current
                           // item
            throw;
        }
    }
    // Runs items on the calling thread until none is left, and calls after(number of items begun)
    // after each.
    template <class After>
    void run(const After& after) {
        const FloatEnvironment environment;
        try {
            while (!stop_.load(std::memory_order_relaxed)) {
                const std::size_t item = next_.fetch_add(1, std::memory_order_relaxed);
                if (item >= count_) break;
                work_(item);
                after(std::min(next_.load(std::memory_order_relaxed), count_));
            }
        } catch (...) {
            stop_.store(true, std::memory_order_relaxed);
            const std::lock_guard lock(failure_mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
    }
    // Waits for all items. If an item threw an exception, throws it again.
    void end() {
        join();
        if (failure_) std::rethrow_exception(failure_);
    }

private:
    void join() {
        for (std::thread& one : others_) one.join();
        others_.clear();
    }

    std::size_t count_;
    const std::function<void(std::size_t)>& work_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stop_{false};
    std::exception_ptr failure_;
    std::mutex failure_mutex_;
    std::vector<std::thread> others_;
};

std::atomic<std::chrono::nanoseconds> share_of_a_thread{std::chrono::microseconds(250)};

}  // namespace

int thread_count(int requested) {
    if (requested < 0) {
        throw std::invalid_argument("threads=" + std::to_string(requested) +
                                    " is negative; use 0 for all of the machine's");
    }
    return requested > 0 ? requested : usable_processors();
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& progress) {
    Loop loop(count, work);
    loop.start(std::min(static_cast<std::size_t>(thread_count(threads)), count));
    loop.run([&](std::size_t begun) {
        if (progress) progress(begun);
    });
    loop.end();
}

std::chrono::nanoseconds pieces::share() { return share_of_a_thread; }
void pieces::set_share(std::chrono::nanoseconds time) { share_of_a_thread = time; }

void pieces::run(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                 std::size_t operations) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::nanoseconds share = pieces::share();
    const bool at_once = share.count() == 0;
    const int wanted = thread_count(threads),
              useful = at_once ? wanted : std::min(wanted, usable_processors());
    const std::size_t most = std::min(static_cast<std::size_t>(useful), count);
    Loop loop(count, work);
    if (at_once || operations >= worth_a_thread) loop.start(most);
    const Clock::time_point began = Clock::now();
    loop.run([&](std::size_t begun) {
        if (loop.threads() > 1 || most == 1) return;
        const auto each = (Clock::now() - began) / begun;
        const auto further = static_cast<std::size_t>(each * (count - begun) / share);
        loop.start(std::min(most, 1 + further));
    });
    loop.end();
}

}  // namespace apscope::detail
