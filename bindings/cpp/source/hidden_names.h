// The hidden names of files and folders that are being written, and of locks. They are the Python
// package's, which removes such files of a killed process.
#pragma once

#include <string>
#include <string_view>

namespace apscope {

// The hidden name .NAME.apscope-ENDING of a destination's name; long names are cut.
std::string hidden_name(std::string_view name, std::string_view ending);

std::string lock_name(std::string_view name);
// A new name, with eight random hexadecimal digits.
std::string fresh_name(std::string_view name);
// True if fresh_name() may have made `hidden` for `name`.
bool is_fresh_name(std::string_view hidden, std::string_view name);

}  // namespace apscope
