// FloatEnvironment sets the floating-point environment of a scope: round to nearest, no subnormal
// flushed, no exception trapped. Every entry point and every worker thread constructs one; its
// destructor restores the caller's control words.
#pragma once

#include <cstdint>

namespace apscope::detail {

class FloatEnvironment {
public:
    FloatEnvironment();
    ~FloatEnvironment();
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

private:
    std::uint64_t saved_control_ = 0;  // the caller's control words, or rounding mode
};

}  // namespace apscope::detail
