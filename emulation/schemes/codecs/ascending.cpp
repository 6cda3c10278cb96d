#include "emulation/schemes/codecs/ascending.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/bits.h"

namespace apscope::detail {

namespace {

constexpr std::uint32_t sign = 0x80000000u;

// Ascends with the number.
std::uint32_t key_of(float x) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    return bits & sign ? ~bits : bits | sign;
}
float number_of(std::uint32_t key) { return bits_cast<float>(key & sign ? key & ~sign : ~key); }

}  // namespace

void AscendingSort::sort(std::span<const double> x, Row& sorted) {
    const std::size_t n = x.size();
    if (n > std::numeric_limits<std::uint32_t>::max())
        throw std::length_error("a row of " + std::to_string(n) + " elements; at most 2^32 - 1 are sorted");
    // A digit's table must not take longer than the numbers do.
    const int width = n < 4096 ? 8 : 11, digits = (31 + width) / width;
    const std::size_t size = std::size_t{1} << width;
    keys_.resize(n);
    other_.resize(n);
    counts_.assign(size * static_cast<std::size_t>(digits), 0);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t key = key_of(static_cast<float>(x[i] + 0.0));
        keys_[i] = key;
        for (int d = 0; d < digits; ++d) ++counts_[static_cast<std::size_t>(d) * size + (key >> d * width & (size - 1))];
    }
    for (int d = 0; d < digits; ++d) {
        const std::span<std::uint32_t> place = std::span(counts_).subspan(static_cast<std::size_t>(d) * size, size);
        if (std::find(place.begin(), place.end(), n) != place.end()) continue;  // all have the same digit
        std::uint32_t before = 0;
        for (std::uint32_t& p : place) {
            const std::uint32_t count = p;
            p = before;
            before += count;
        }
        for (const std::uint32_t key : keys_) other_[place[key >> d * width & (size - 1)]++] = key;
        keys_.swap(other_);
    }
    sorted.resize(n);
    for (std::size_t i = 0; i < n; ++i) sorted[i] = number_of(keys_[i]);
}

}  // namespace apscope::detail
