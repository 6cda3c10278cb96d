// The fuzzed functions: readers of texts and files from outside. A target takes any bytes. The
// reader must accept them or refuse them in one sentence; otherwise the target throws, or a
// sanitizer ends the program.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace apscope::detail::fuzz {

using Bytes = std::span<const std::uint8_t>;

void safetensors(Bytes bytes);  // a file: opened, every tensor read
void manifest(Bytes bytes);     // manifest.json
void specs(Bytes bytes);        // names of formats, block formats and topologies, specs of schemes
void formats(Bytes bytes);      // a name of a format or block format, a line break, fields of both:
                                // names read again, codes, limits
void plans(Bytes bytes);    // a name or fields of a format, a projection, numbers: the planned cast
                            // against the rule
void schemes(Bytes bytes);  // a spec, a line break, gradients: two steps of the scheme on them

inline std::string_view text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// True if `read` accepts its input; throws if `read` refuses it with anything but one line.
template <class Read>
bool taken(const Read& read) {
    try {
        read();
        return true;
    } catch (const std::invalid_argument& error) {
        const std::string_view message = error.what();
        if (message.empty() || message.find('\n') != std::string_view::npos)
            throw std::logic_error("a refusal of not one line: " + std::string(message));
        return false;
    }
}

inline void require(bool holds, const std::string& what) {
    if (!holds) throw std::logic_error(what);
}

}  // namespace apscope::detail::fuzz
