// Loops whose items run on several threads. A thread takes the next item when it is free. Results
// must not depend on the thread that runs an item, so any number of threads gives the same results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>

#include "core/float_environment.h"

namespace apscope::detail {

// The number of threads for a request: 0 means as many as usable_processors().
int thread_count(int requested);

// Calls work(item) for items 0..count-1, which are long enough to start all requested threads at
// once. The calling thread runs items too; after each of them, it calls progress(number of items
// begun), if present. An exception in work() or progress() stops the loop, and parallel_for()
// throws it again.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& progress = {});

namespace pieces {

// The number of operations, such as roundings or additions, from which on a piece is long enough
// for a thread.
inline constexpr std::size_t worth_a_thread = std::size_t{1} << 20;

// The time that the remaining pieces must need per additional thread before this thread is started,
// because the start takes tens of microseconds. With 0, every loop starts all requested threads,
// even more than there are processors, so that tests of short arrays use several threads.
std::chrono::nanoseconds share();
void set_share(std::chrono::nanoseconds time);

void run(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
         std::size_t operations);

}  // namespace pieces

// Calls work(piece) for the pieces 0..count-1 of an array, which may be short. The calling thread
// begins alone. Other threads, at most one per processor, start as soon as the time of the first
// pieces shows that enough work remains, so a larger number of threads never makes a short array
// slower. `operations` is the number of operations of one piece, or 0 if unknown; if it is at least
// worth_a_thread, all threads start at once. An exception in work() is thrown again, as by
// parallel_for().
template <class Work>
void parallel_pieces(std::size_t count, int threads, const Work& work, std::size_t operations = 0) {
    const auto wanted = static_cast<std::size_t>(thread_count(threads));
    if (std::min(count, wanted) > 1) return pieces::run(count, threads, work, operations);
    const FloatEnvironment environment;
    for (std::size_t piece = 0; piece < count; ++piece) work(piece);
}

}  // namespace apscope::detail
