// FloatEnvironment: round to nearest, subnormals kept, for the lifetime of a scope. Every entry
// point and every worker thread opens one; the caller's mode comes back at its end.
#pragma once

#include <cstdint>

namespace apscope {

class FloatEnvironment {
public:
    FloatEnvironment();
    ~FloatEnvironment();
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

private:
    std::uint64_t saved_control_ = 0;
};

}  // namespace apscope
