// Which elements are sent where only some are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/bits.h"

namespace apscope::detail {

// The indices, ascending, of the `count` largest of size(0), ..., size(n - 1), which are at least 0; of equals the first.
// A histogram of the sizes' leading bits says in which of its bins the last of them lies; that bin alone is searched.
template <class Size>
std::vector<std::size_t> largest(std::size_t n, std::size_t count, Size&& size) {
    std::vector<std::size_t> index;
    if (count >= n) {
        index.resize(n);
        std::iota(index.begin(), index.end(), std::size_t{0});
        return index;
    }
    if (count == 0) return index;
    constexpr int shift = 48;  // exponent and four fraction bits are left
    const auto bin_of = [](double v) { return bits_cast<std::uint64_t>(v + 0.0) >> shift; };
    std::vector<std::size_t> counts(std::size_t{1} << (63 - shift), 0);
    for (std::size_t i = 0; i < n; ++i) ++counts[bin_of(size(i))];
    std::size_t last = counts.size(), left = count;
    while (counts[--last] < left) left -= counts[last];

    struct Sized {
        double size;
        std::size_t index;
    };
    std::vector<Sized> searched;
    searched.reserve(counts[last]);
    for (std::size_t i = 0; i < n; ++i) {
        if (const double v = size(i); bin_of(v) == last) searched.push_back({v, i});
    }
    const auto end = searched.begin() + static_cast<std::ptrdiff_t>(left - 1);
    std::nth_element(searched.begin(), end, searched.end(),
                     [](const Sized& a, const Sized& b) { return a.size != b.size ? a.size > b.size : a.index < b.index; });
    index.resize(count + 1);  // what is not kept goes where the next one will
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double v = size(i);
        index[kept] = i;
        kept += v > end->size || (v == end->size && i <= end->index) ? 1 : 0;
    }
    index.resize(count);
    return index;
}

// How many of n a share keeps: at least one, if there is any.
inline std::size_t kept_of(std::size_t n, double share) {
    return n == 0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(n) * share));
}

// Bits of a place among n: as many as it takes if packed (none if there is one place only), else 32, or more where 32
// do not reach.
inline int place_bits(std::size_t n, bool packed) {
    const int needed = static_cast<int>(std::bit_width(n == 0 ? n : n - 1));
    return packed ? needed : std::max(32, needed);
}

}  // namespace apscope::detail
