// Regular expressions that users give, in RE2's syntax. A search takes linear time and bounded
// memory for every expression and text; lookaheads and backreferences, which would need more, are
// refused.
#pragma once

#include <memory>
#include <string_view>

namespace re2 {
class RE2;
}

namespace apscope::detail {

class Pattern {
public:
    // Throws std::invalid_argument for an expression longer than limits::pattern_length, or invalid
    // in RE2.
    explicit Pattern(std::string_view text);
    bool found_in(std::string_view text) const;  // true for a match anywhere in `text`

private:
    std::shared_ptr<const re2::RE2> expression_;
};

}  // namespace apscope::detail
