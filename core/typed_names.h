// The spellings that people type for a format, and messages with the right spelling. The words for
// schemes and their keys are in emulation/schemes/typed_schemes.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/format_syntax.h"

namespace apscope::detail {

// The word in lower case, without separators: FP8-E4M3 and fp8_e4m3 become equal.
std::string folded(std::string_view word);
// Folded words, separated by spaces, and their common meaning.
struct Words {
    std::string_view words, meant;
};
// The meaning in the first row that lists the folded `word`; empty if no row does.
std::string_view meant_by(std::span<const Words> rows, std::string_view word);

// The name in the table of formats for another spelling, such as bf16 for BF16 and e5m2 for
// FP8E5M2; empty if the word is not a spelling of one format. (E4M3 has two: its largest value is
// 448 in OCP's format and 240 in the IEEE one.)
std::string format_spelling(std::string_view word);

// The formats that an ambiguous word, such as FP8, may mean.
struct SeveralFormats {
    std::string_view words;       // folded, separated by spaces
    std::string_view one, other;  // the two most usual formats
    std::string_view all;         // all formats, as the text of a message
};
const SeveralFormats* formats_meant(std::string_view word);  // null for other words

// The text "; int8 is ..." for a word that names something other than a float format, with the word
// to type instead; empty for other words.
std::string not_a_float_format(std::string_view word);
// The suggestion for an unknown block format: "; did you mean mxfp8_e4m3 or mxfp8_e5m2?"; empty if
// there is none.
std::string block_formats_meant(std::string_view word);
// The width in bits of the integer type that a word names, such as 8 for int8 and uint8_t; 0 for
// other words.
int integer_bits(std::string_view word);

}  // namespace apscope::detail
