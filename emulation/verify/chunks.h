// Runs work in chunks on several threads, and reports progress from the calling thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "emulation/verify/verify.h"

namespace apscope::detail::oracle {

// Calls work(first, last) for pieces of [0, total), each at most `chunk` long, and merges the
// results by Result::merge(), in any order. Every thread gets its own `work` from make_worker(). If
// progress() returns false, sets `stopped` and returns early. An exception of a worker or of
// progress() is thrown again here, after all workers have ended.
template <class Result, class MakeWorker>
Result in_chunks(std::uint64_t total, std::uint64_t chunk, int threads, const Progress& progress,
                 bool& stopped, MakeWorker&& make_worker) {
    std::atomic<std::uint64_t> next{0}, done{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable changed;
    int running = std::max(1, threads);
    std::exception_ptr failure, progress_failed;
    Result result;

    auto run = [&] {
        Result mine;
        std::exception_ptr mine_failed;
        try {
            auto work = make_worker();
            for (;;) {
                const std::uint64_t first = next.fetch_add(chunk);
                if (first >= total || stop) break;
                const std::uint64_t last = std::min(first + chunk, total);
                mine.merge(work(first, last));
                done += last - first;
            }
        } catch (...) {
            mine_failed = std::current_exception();
            stop = true;
        }
        const std::lock_guard lock(mutex);
        result.merge(mine);
        if (mine_failed) failure = mine_failed;
        --running;
        changed.notify_one();
    };
    std::vector<std::jthread> workers;
    for (int i = 0; i < std::max(1, threads); ++i) workers.emplace_back(run);
    {
        std::unique_lock lock(mutex);
        while (running > 0) {  // NOLINT(bugprone-infinite-loop): every worker decreases `running`
            changed.wait_for(lock, std::chrono::milliseconds(100));
            if (!progress || stop) continue;
            lock.unlock();
            try {
                if (!progress(done, total)) stop = stopped = true;
            } catch (...) {
                progress_failed = std::current_exception();
                stop = true;
            }
            lock.lock();
        }
    }
    workers.clear();
    if (progress_failed) std::rethrow_exception(progress_failed);
    if (failure) std::rethrow_exception(failure);
    return result;
}

}  // namespace apscope::detail::oracle
