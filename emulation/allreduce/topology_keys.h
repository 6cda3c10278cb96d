// What stands behind the name of a topology: keys, formats and numbers of its text. `whole` is the
// topology as it was given, which the sentences of errors (std::invalid_argument) name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

[[noreturn]] void refuse(const std::string& sentence);
// "a, b or c".
std::string listed(const std::vector<std::string>& names, std::string_view last = " or ");

// sum=, own= and, where sums are encoded again, phase2=.
TwoPhase phases_of(const std::string& whole, std::string_view name,
                   std::span<const std::string_view> settings);
// channels= and protocol=.
Channels channels_of(const std::string& whole, std::string_view name,
                     std::span<const std::string_view> settings);
// Of a float format, or of a block format as `mx` has it, with / in the place of commas.
std::string format_name(const std::string& name);
// Of hierarchical:G: the number behind the colon.
int group_of(const std::string& whole, std::string_view form, std::string_view number);

}  // namespace apscope::detail
