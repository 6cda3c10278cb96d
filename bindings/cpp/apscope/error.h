// The library's errors: apscope::error, with an ErrorKind. Wherever a function is said to throw
// std::invalid_argument, it throws this class, which is derived from it.
#pragma once

#include <iosfwd>

#include "core/error.h"
#include "export.h"

namespace apscope {

APSCOPE_API std::ostream& operator<<(std::ostream& out, ErrorKind kind);

}  // namespace apscope
