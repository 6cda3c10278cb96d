// parallel_for runs items 0..count-1 on threads that take the next item when they are free. A
// result does not depend on the thread that runs an item, so callers may use any number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace apscope::detail {

// The number of threads for a request: 0 means as many as the machine runs at once.
int thread_count(int requested);

// Calls work(item) for every item; the calling thread works too. After each of its own items, the
// calling thread calls progress(items begun so far), if given. An exception in work() or progress()
// stops the loop, and parallel_for() throws it again.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& progress = {});

}  // namespace apscope::detail
