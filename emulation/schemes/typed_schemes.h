// What people type for a scheme, a key or a value: the spec that is meant, where it is one, else
// the sentence with the right spelling. Words for formats are in core/typed_names.h.
#pragma once

#include <string>
#include <string_view>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

// The spec that begins with a scheme's name in place of `name`, such as sign_vote for MajorityVote
// and mx:block_format=mxfp4 for mxfp4: what follows the name in a spec follows it. Empty: none.
std::string spec_begun_by(std::string_view name);

// What follows "unknown scheme 'NAME'": "; bf16 is a format: none:bf16 ..."; empty: nothing.
std::string scheme_hint(std::string_view name);

// The sentence for what stands in the place of a scheme's format, such as int8; empty: nothing.
std::string format_hint(const SchemeDefinition& definition, std::string_view head);

// What follows "scheme 'aps' has no key 'block'": "; did you mean unit=32?"; empty: nothing.
std::string key_hint(const SchemeDefinition& definition, std::string_view key,
                     std::string_view value);

// What follows a word without a key, such as "tight": "; did you mean rule=tight?"; empty: nothing.
std::string bare_hint(const SchemeDefinition& definition, std::string_view word);

// The canonical spelling of a value of the keys unit, block_format and accumulate, such as mxfp4
// for MXFP4; another text as it is. Throws std::invalid_argument for a word with another spelling,
// such as unit=layer.
std::string value_word(std::string_view key, std::string_view value);

}  // namespace apscope::detail
