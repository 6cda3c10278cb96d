#include "core/rounding_words.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "core/nearest_names.h"
#include "core/rounding_mode.h"

namespace apscope::detail {
namespace {

constexpr std::string_view open_words = " nearest tonearest roundtonearest rn rtn rndn ";

std::string folded(std::string_view word) {
    std::string out;
    for (const char c : word) {
        if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
        else if (c != '_' && c != '-' && c != ' ') out += c;
    }
    return out;
}

bool lists(std::string_view words, const std::string& word) {
    return words.find(" " + word + " ") != std::string_view::npos;
}

}  // namespace

std::string_view rounding_word(std::string_view word) {
    if (word.size() > 64) return word;
    const std::string plain = folded(word);
    std::vector<std::string_view> names;
    for (const RoundingName& row : rounding_names) {
        names.push_back(row.name);
        if (folded(names.back()) == plain) return names.back();
    }
    for (const RoundingName& row : rounding_names) {
        if (lists(row.synonyms, plain)) return row.name;
    }
    const std::string unknown = "unknown rounding '" + limits::clipped(word) + "'";
    if (lists(open_words, plain)) {
        throw error(unknown + ", which does not say where ties go; use ties_to_even, IEEE "
                              "754's default, ties_to_away or ties_to_zero");
    }
    if (const std::string near = did_you_mean(word, names); !near.empty())
        throw error(unknown + near);
    return word;
}

}  // namespace apscope::detail
