#include "emulation/cast/packing.h"

#include <string>

#include "bindings/cpp/apscope/packing.h"
#include "bindings/cpp/source/edge.h"
#include "core/error.h"

namespace apscope {
namespace {

[[noreturn]] void refuse(std::size_t found, const char* what, int bits, std::size_t lines) {
    throw error(std::to_string(found) + " " + what + " do not make " + std::to_string(lines) +
                " equal lines of codes of " + std::to_string(bits) + " bits");
}

}  // namespace

std::vector<std::uint8_t> pack(std::span<const std::uint8_t> codes, int bits,
                               std::size_t lines) try {
    if (lines == 0 ? !codes.empty() : codes.size() % lines != 0)
        refuse(codes.size(), "codes", bits, lines);
    const std::size_t length = lines == 0 ? 0 : codes.size() / lines;
    std::vector<std::uint8_t> bytes(lines * detail::packed_size(length, bits));
    detail::pack(codes, bytes, lines, bits);
    return bytes;
} catch (...) {
    detail::throw_error();
}

std::vector<std::uint8_t> unpack(std::span<const std::uint8_t> bytes, int bits, std::size_t count,
                                 std::size_t lines) try {
    const std::size_t packed = detail::packed_size(count, bits);
    const bool fits = packed == 0 || lines == 0
                          ? bytes.empty()
                          : bytes.size() % lines == 0 && bytes.size() / lines == packed;
    if (!fits) refuse(bytes.size(), "bytes", bits, lines);
    std::vector<std::uint8_t> codes(bytes.empty() ? 0 : lines * count);
    detail::unpack(bytes, codes, bytes.empty() ? 0 : lines, bits);
    return codes;
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
