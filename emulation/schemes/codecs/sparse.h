// Which elements are sent where only some are.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace apscope::detail {

// The indices, ascending, of the `count` largest of size(0), ..., size(n - 1); of equals the first.
template <class Size>
std::vector<std::size_t> largest(std::size_t n, std::size_t count, Size&& size) {
    std::vector<double> sizes(n);
    for (std::size_t i = 0; i < n; ++i) sizes[i] = size(i);
    std::vector<std::size_t> index(n);
    std::iota(index.begin(), index.end(), std::size_t{0});
    if (count >= n) return index;
    const auto before = [&](std::size_t a, std::size_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; };
    std::nth_element(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(count), index.end(), before);
    index.resize(count);
    std::sort(index.begin(), index.end());
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
