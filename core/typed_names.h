// What people type for a format: the sentence that has the right spelling. The words for schemes
// and their keys are in emulation/schemes/typed_schemes.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace apscope::detail {

// Lower case, without the signs that people write between words: FP8-E4M3 and fp8_e4m3 are alike.
std::string folded(std::string_view word);
// Is `word` in a list of words separated by spaces?
bool lists_word(std::string_view words, std::string_view word);

// Folded words, separated by spaces, and what is meant by them.
struct Words {
    std::string_view words, meant;
};
// What is meant by a word, of the first row that lists it folded; empty: no such word.
std::string_view meant_by(std::span<const Words> rows, std::string_view word);

// A name of the table of formats for the folded spelling of one, such as bf16 for BF16 and e5m2
// for FP8E5M2; else empty. A word with two meanings has none: E4M3 ends at 448 (OCP) or at 240.
std::string format_spelling(std::string_view word);

// The formats that a folded word may mean: FP8.
struct SeveralFormats {
    std::string_view words;       // separated by spaces
    std::string_view one, other;  // the usual two
    std::string_view all;         // for a message
};
const SeveralFormats* formats_meant(std::string_view word);  // null: no such word

// What a word is that is not a float format, with what to type instead, as "; int8 is ..."; else
// empty.
std::string not_a_float_format(std::string_view word);
// For an unknown block format: "; did you mean mxfp8_e4m3 or mxfp8_e5m2?"; else empty.
std::string block_formats_meant(std::string_view word);
// The width of a word for integers, such as 8 for int8 and uint8_t; else 0.
int integer_bits(std::string_view word);

}  // namespace apscope::detail
