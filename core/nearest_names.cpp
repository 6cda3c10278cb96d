#include "core/nearest_names.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace apscope::detail {
namespace {

// Returns the optimal string alignment distance of two words, from a table over the prefixes of
// both, of which three rows are stored.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = last;
        last.swap(row);
    }
    return last[b.size()];
}

std::string lower(std::string_view word) {
    std::string out(word);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
    if (word.size() > 64) return "";  // longer than any name, and the time grows with the length
    std::size_t fewest = std::max<std::size_t>(1, word.size() / 3);
    std::vector<std::string_view> near;
    for (const std::string_view name : known) {
        const std::size_t steps = distance(lower(word), lower(name));
        if (steps > fewest || steps >= word.size()) continue;
        if (steps < fewest) near.clear();
        fewest = steps;
        near.push_back(name);
    }
    if (near.size() > 3) near.resize(3);
    std::string text;
    for (std::size_t i = 0; i < near.size(); ++i)
        text += (i == 0 ? "" : i + 1 == near.size() ? " or " : ", ") + std::string(near[i]);
    return text.empty() ? text : "; did you mean " + text + "?";
}

}  // namespace apscope::detail
