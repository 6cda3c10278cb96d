#include "emulation/schemes/shared/pattern.h"

#include <re2/re2.h>

#include <stdexcept>
#include <string>

#include "core/limits.h"

namespace apscope::detail {

Pattern::Pattern(std::string_view text) {
    const auto refuse = [&](const std::string& why) {
        throw std::invalid_argument("'" + limits::clipped(text) +
                                    "' is not a regular expression that apscope takes: " + why);
    };
    if (text.size() > limits::pattern_length) {
        refuse("it has " + std::to_string(text.size()) + " characters; at most " +
               std::to_string(limits::pattern_length) + " are read");
    }
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(limits::pattern_memory);
    const re2::StringPiece piece(text.data(), text.size());
    expression_ = std::make_shared<const RE2>(piece, options);
    if (!expression_->ok())
        refuse(limits::clipped(expression_->error()) + "; it must be in RE2's syntax");
}

bool Pattern::found_in(std::string_view text) const {
    return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *expression_);
}

}  // namespace apscope::detail
