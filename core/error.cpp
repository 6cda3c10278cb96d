#include "core/error.h"

namespace apscope {

std::string_view to_string(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid_value: return "invalid_value";
        case ErrorKind::unsupported: return "unsupported";
        case ErrorKind::missing_file: return "missing_file";
        case ErrorKind::unreadable_file: return "unreadable_file";
        case ErrorKind::existing_file: break;
    }
    return "existing_file";
}

error::error(const std::string& sentence, ErrorKind kind)
    : std::invalid_argument(sentence), kind_(kind) {}

error::~error() = default;

}  // namespace apscope
