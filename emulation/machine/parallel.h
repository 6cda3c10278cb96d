// Loops whose items run on several threads, which take the next item when they are free. A result
// does not depend on the thread that runs an item, so callers may use any number of threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>

#include "core/float_environment.h"

namespace apscope::detail {

// The number of threads for a request: 0 means as many as usable_processors().
int thread_count(int requested);

// Calls work(item) for items 0..count-1 that are worth a thread each: the threads start at once,
// as many as requested. The calling thread works too. After each of its own items, it calls
// progress(items begun so far), if given. An exception in work() or progress() stops the loop, and
// parallel_for() throws it again.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& progress = {});

namespace pieces {

// Operations of a piece, such as roundings or additions, from which on it is worth a thread.
inline constexpr std::size_t worth_a_thread = std::size_t{1} << 20;

// The work that must remain for each further thread, because a thread takes tens of microseconds
// to start. With 0, every loop starts all threads that were requested, however many processors
// there are, so that tests of short arrays run on several threads.
std::chrono::nanoseconds share();
void set_share(std::chrono::nanoseconds time);

void run(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
         std::size_t operations);

}  // namespace pieces

// Calls work(piece) for the pieces 0..count-1 of an array, which may be short. The calling thread
// begins alone, and others, at most one a processor, join it once its own pieces have shown that
// enough work remains; so an array is never slower for a larger number of threads. If one piece has
// `operations` operations, and these alone are worth a thread, the others start at once. An
// exception in work() is thrown again, as by parallel_for().
template <class Work>
void parallel_pieces(std::size_t count, int threads, const Work& work, std::size_t operations = 0) {
    const auto wanted = static_cast<std::size_t>(thread_count(threads));
    if (std::min(count, wanted) > 1) return pieces::run(count, threads, work, operations);
    const FloatEnvironment environment;
    for (std::size_t piece = 0; piece < count; ++piece) work(piece);
}

}  // namespace apscope::detail
