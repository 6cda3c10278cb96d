// Writes and reads numbers of up to 64 bits without gaps, for the payload of messages. A number's
// low bit comes first, as in packing.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace apscope::detail {

class BitWriter {
public:
    explicit BitWriter(bool keeps = true) : keeps_(keeps) {}  // keeps = false: only counts the bits

    // Appends the low `width` bits of `number`, 0 <= width <= 64.
    void put(std::uint64_t number, int width) {
        if (!keeps_) {
            bits_ += static_cast<std::uint64_t>(width);
            return;
        }
        for (int bit = 0; bit < width; ++bit, ++bits_) {
            if (bits_ % 8 == 0) bytes_.push_back(0);
            bytes_.back() |= static_cast<std::uint8_t>((number >> bit & 1) << (bits_ % 8));
        }
    }
    // The number of bits written so far.
    std::uint64_t bits() const { return bits_; }
    std::vector<std::uint8_t> take() { return std::move(bytes_); }

private:
    std::vector<std::uint8_t> bytes_;
    std::uint64_t bits_ = 0;
    bool keeps_;
};

class BitReader {
public:
    explicit BitReader(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
    // The next `width` bits as a number, 0 <= width <= 64.
    std::uint64_t get(int width) {
        std::uint64_t number = 0;
        for (int bit = 0; bit < width; ++bit, ++at_)
            number |= std::uint64_t{bytes_.at(at_ / 8) >> (at_ % 8) & 1u} << bit;
        return number;
    }

private:
    const std::vector<std::uint8_t>& bytes_;
    std::uint64_t at_ = 0;
};

}  // namespace apscope::detail
