// What the kernels that ran in the interpreter needed, for tests and tables.
#pragma once

#include <map>
#include <string>

#include "machine.h"

namespace apscope::interpreter {

// The counts of all launches since the last call, by the kernels' mangled names.
std::map<std::string, Counts> take_counts();

}  // namespace apscope::interpreter
