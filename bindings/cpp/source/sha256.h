// SHA-256 (FIPS 180-4) of bytes that are added piece by piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace apscope {

class Sha256 {
public:
    void add(std::string_view bytes);
    // The digest of all bytes, in lower-case hexadecimal. Ends the computation: neither function
    // may be called afterwards.
    std::string digest();

private:
    void compress(const unsigned char* block);

    std::array<std::uint32_t, 8> hash_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> block_{};
    std::size_t filled_ = 0;
    std::uint64_t length_ = 0;  // bytes
};

inline std::string sha256(std::string_view bytes) {
    Sha256 hash;
    hash.add(bytes);
    return hash.digest();
}

}  // namespace apscope
