// Recognizes words that people type for a scheme, a key or a value, and returns the spec that is
// meant or a sentence with the right spelling. Words for formats are in core/typed_names.h.
#pragma once

#include <string>
#include <string_view>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

// The beginning of a spec that `name` stands for, such as sign_vote for MajorityVote, or
// mx:block_format=mxfp4 for mxfp4. Empty if `name` is not recognized.
std::string spec_begun_by(std::string_view name);

// The text after "unknown scheme 'NAME'", such as "; bf16 is a format: none:bf16 ..."; may be
// empty.
std::string scheme_hint(std::string_view name);

// The sentence about a word, such as int8, that stands in place of a scheme's format; may be empty.
std::string format_hint(const SchemeDefinition& definition, std::string_view head);

// The text after "scheme 'aps' has no key 'block'", such as "; did you mean unit=32?"; may be
// empty.
std::string key_hint(const SchemeDefinition& definition, std::string_view key,
                     std::string_view value);

// The text after a word without a key, such as "; did you mean rule=tight?" after "tight"; may be
// empty.
std::string bare_hint(const SchemeDefinition& definition, std::string_view word);

// The canonical spelling of a value of the keys unit, block_format and accumulate, such as mxfp4
// for MXFP4; unknown texts are returned unchanged. Throws std::invalid_argument for a known wrong
// word, such as unit=layer; the message names the value to use instead.
std::string value_word(std::string_view key, std::string_view value);

}  // namespace apscope::detail
