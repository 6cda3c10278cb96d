#include "core/rounding_words.h"

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/limits.h"
#include "core/nearest_names.h"
#include "core/projection.h"

namespace apscope::detail {
namespace {

struct Row {
    RoundingMode mode;
    std::string_view words;  // folded, between spaces
};
// RISC-V, IEEE 754, P3109, MPFR's and C's; NumPy's and common ones. The names of this library,
// folded, are accepted too.
constexpr std::array<Row, 7> rows = {{
    {RoundingMode::ties_to_even,
     " rne roundtiestoeven nearesttiestoeven nearesteven roundnearesteven roundtonearesteven halfeven halftoeven "},
    {RoundingMode::ties_to_away,
     " rna rmm roundtiestoaway nearesttiestoaway nearestaway halfaway halfawayfromzero "},
    {RoundingMode::toward_zero, " rtz rndz roundtowardzero towardszero truncate trunc "},
    {RoundingMode::toward_positive, " rup rndu roundtowardpositive towardinfinity ceil ceiling "},
    {RoundingMode::toward_negative, " rdn rndd roundtowardnegative floor "},
    {RoundingMode::to_odd, " rto roundtoodd "},
    {RoundingMode::stochastic, " sr stochastica stochasticrounding "},
}};
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
    for (int mode = 0; mode < rounding_mode_count; ++mode) {
        names.push_back(to_string(static_cast<RoundingMode>(mode)));
        if (folded(names.back()) == plain) return names.back();
    }
    for (const Row& row : rows) {
        if (lists(row.words, plain)) return to_string(row.mode);
    }
    const std::string unknown = "unknown rounding '" + limits::clipped(word) + "'";
    if (lists(open_words, plain)) {
        throw std::invalid_argument(
            unknown +
            ", which leaves open where ties go; use ties_to_even, IEEE 754's default, ties_to_away or ties_to_zero");
    }
    if (const std::string near = did_you_mean(word, names); !near.empty())
        throw std::invalid_argument(unknown + near);
    return word;
}

}  // namespace apscope::detail
