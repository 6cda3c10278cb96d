// Keys that are real numbers, beside the fp32 scales of SchemeArguments::real().
#pragma once

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A number from `least` to `most`, both included; throws std::invalid_argument.
double number_between(const SchemeArguments& arguments, std::string_view key, double least, double most);

}  // namespace apscope::detail
