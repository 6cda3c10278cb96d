// Sentences of the column `note` that summaries read.
#pragma once

#include <string>
#include <string_view>

namespace apscope::detail {

// The beginning of a row's note if the trace lacks its inputs.
inline constexpr std::string_view not_measurable = "not measurable on this trace: needs ";

// In the note of a scheme with memory at a step whose step before was not replayed: its memory is
// of an earlier step.
inline constexpr std::string_view after_gap = "memory of an earlier step";

// In the note of a scheme that mixes elements, of a tensor of which the trace has a sample: the
// figures are those of the sample alone.
inline constexpr std::string_view of_sample = "of a sample of the tensor";

inline void add_note(std::string& note, std::string_view more) {
    if (!note.empty()) note += "; ";
    note += more;
}

}  // namespace apscope::detail
