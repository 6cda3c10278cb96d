// error: what the C++ library throws, a sentence and its kind.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace apscope {

// The kinds of errors.
enum class ErrorKind {
    invalid_value,    // an argument is refused: a name, a spec, a length, a number out of range
    unsupported,      // the arguments exist, but not together, or not in this version
    missing_file,     // a file or a folder is not there, or a folder is not a trace
    unreadable_file,  // a file is damaged, was changed while it was read, or may not be read
    existing_file,    // files are already there, and would be replaced
};

std::string_view to_string(ErrorKind kind);

// An error of the library. Its message is one sentence.
class [[gnu::visibility("default")]] error : public std::invalid_argument {
public:
    explicit error(const std::string& sentence, ErrorKind kind = ErrorKind::invalid_value);
    error(const error&) = default;
    error& operator=(const error&) = default;
    ~error() override;

    ErrorKind kind() const { return kind_; }

private:
    ErrorKind kind_;
};

}  // namespace apscope
