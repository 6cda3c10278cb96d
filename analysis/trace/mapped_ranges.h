// The memory that files are mapped to, as the handler of SIGBUS knows it. A page that the file no longer has becomes one
// of zeros, and so does the rest of the range; every other SIGBUS goes to whoever handled it before.
#pragma once

#include <atomic>
#include <cstddef>

namespace apscope::detail {

// From now on until `forget_range`, as long as `cut` must live: it becomes true where a page was not there. The first call
// installs the handler.
void remember_range(const void* begin, std::size_t length, std::atomic<bool>* cut);
void forget_range(const void* begin);

}  // namespace apscope::detail
