// The memory of mapped files, for the SIGBUS handler. A page that the file no longer has is
// replaced by zeros, and so is the rest of the range; every other SIGBUS is passed to the previous
// handler.
#pragma once

#include <atomic>
#include <cstddef>

namespace apscope::detail {

// Until forget_range(), the handler replaces missing pages of the range, and then sets `*cut`,
// which must live until forget_range(). The first call installs the handler.
void remember_range(const void* begin, std::size_t length, std::atomic<bool>* cut);
void forget_range(const void* begin);

}  // namespace apscope::detail
