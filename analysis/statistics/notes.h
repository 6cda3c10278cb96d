// Sentences of the column `note` that summaries search for.
#pragma once

#include <string>
#include <string_view>

namespace apscope::detail {

// The beginning of a row's note if the trace lacks inputs of the row's scheme.
inline constexpr std::string_view not_measurable = "not measurable on this trace: needs ";

// Part of the note of a scheme with memory at a step whose previous step was not replayed, so the
// memory is of an earlier step.
inline constexpr std::string_view after_gap = "memory of an earlier step";

// Part of the note of a scheme that mixes elements, for a tensor of which the trace has a sample:
// the figures describe only the sample.
inline constexpr std::string_view of_sample = "of a sample of the tensor";

inline void add_note(std::string& note, std::string_view more) {
    if (!note.empty()) note += "; ";
    note += more;
}

}  // namespace apscope::detail
