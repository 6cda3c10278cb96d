// Parses the part of a topology's text that follows its name: keys, formats and numbers.
// `full_name` is the complete text, which the messages of errors (std::invalid_argument) quote.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

// Throws std::invalid_argument with the sentence.
[[noreturn]] void refuse(const std::string& sentence);
// The names as a list in a sentence, such as "a, b or c".
std::string listed(const std::vector<std::string>& names, std::string_view last = " or ");

// Parses the keys sum=, own= and, unless the topology is reduce_scatter, phase2=.
TwoPhase phases_of(const std::string& full_name, std::string_view name,
                   std::span<const std::string_view> settings);
// Parses the keys channels= and protocol=.
Channels channels_of(const std::string& full_name, std::string_view name,
                     std::span<const std::string_view> settings);
// Checks the name of a float format, or of a block format with / in place of commas (as in the spec
// of the scheme `mx`), and returns it.
std::string format_name(const std::string& name);
// The group size of hierarchical:G, from the text after the colon.
int group_of(const std::string& full_name, std::string_view form, std::string_view number);

}  // namespace apscope::detail
