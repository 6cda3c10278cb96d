// FloatEnvironment sets the floating-point environment of a scope: round to nearest, no subnormal
// flushed, no exception trapped. Every entry point and every worker thread opens one; the caller's
// control words are restored at its end.
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
    std::uint64_t saved_control_ = 0;
};

}  // namespace apscope::detail
