#include <ostream>

#include "bindings/cpp/apscope/error.h"
#include "bindings/cpp/apscope/formats.h"

namespace apscope {

std::ostream& operator<<(std::ostream& out, const FloatFormat& format) {
    return out << format.name();
}
std::ostream& operator<<(std::ostream& out, const BlockFormat& format) {
    return out << format.name();
}
std::ostream& operator<<(std::ostream& out, RoundingMode mode) { return out << to_string(mode); }
std::ostream& operator<<(std::ostream& out, Overflow overflow) {
    return out << to_string(overflow);
}
std::ostream& operator<<(std::ostream& out, Underflow underflow) {
    return out << to_string(underflow);
}
std::ostream& operator<<(std::ostream& out, ScaleRule rule) { return out << to_string(rule); }
std::ostream& operator<<(std::ostream& out, BlockNonfinite rule) { return out << to_string(rule); }
std::ostream& operator<<(std::ostream& out, ErrorKind kind) { return out << to_string(kind); }

}  // namespace apscope
