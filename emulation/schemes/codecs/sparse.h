// The choice of elements for schemes that send only some elements.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/fixed_shape_sum.h"
#include "core/ulps.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Separates the largest sizes (magnitudes or other numbers >= 0), for which keeps() is true, from
// the others. Of equal sizes, those with the smallest indices are chosen.
struct Cutoff {
    double size = -1.0, index = 0.0;  // size and index of the last chosen element

    bool keeps(double v, double place) const {
        return (v > size) | ((v == size) & (place <= index));
    }
    bool keeps(double v, std::size_t i) const { return keeps(v, static_cast<double>(i)); }
    Row row() const { return {size, index}; }
    static Cutoff of(std::span<const double> row) { return {row[0], row[1]}; }
};

// The cutoff that chooses the `count` largest of n sizes >= 0; visit(f) calls f(i, size of i) for
// all sizes, in order. Up to 2048 sizes are copied and partially sorted. For more sizes, a
// histogram of the leading 16 bits gives the bin of the last chosen size, and only that bin is
// searched further: if it has few sizes, these are copied and partially sorted; otherwise the next
// 16 bits are counted. Sizes with equal bits are chosen in the order of their indices.
template <class Visit>
Cutoff cutoff_of(std::size_t n, std::size_t count, Visit&& visit) {
    if (count >= n) return {};
    if (count == 0) return {std::numeric_limits<double>::infinity(), -1.0};
    // Copies of up to this number of sizes take about one byte per element.
    const std::size_t few = n / 16 + (std::size_t{1} << 12);
    Buffer<std::size_t> counts;
    std::uint64_t leading = 0;  // the bits from bit `shift` on, equal in all searched sizes
    int shift = 64;
    std::size_t searched = n,  // number of sizes that are searched
        left = count;          // rank, among the searched sizes, of the last chosen size
    const auto is_left = [&](double v) {
        return shift == 64 || bits_cast<std::uint64_t>(v + 0.0) >> shift == leading;
    };
    for (bool counts_on = n > 2048; counts_on; counts_on = shift > 0 && searched > few) {
        counts.assign(std::size_t{1} << 16, 0);
        const int next = shift - 16;
        visit([&](std::size_t, double v) {
            if (is_left(v)) ++counts[bits_cast<std::uint64_t>(v + 0.0) >> next & 0xFFFF];
        });
        std::size_t bin = counts.size();
        while (counts[--bin] < left) left -= counts[bin];
        leading = leading << 16 | bin;
        shift = next;
        searched = counts[bin];
    }
    if (searched > few) {
        std::size_t last = 0, before = 0;
        visit([&](std::size_t i, double v) {
            if (is_left(v) && before++ < left) last = i;
        });
        return {bits_cast<double>(leading), static_cast<double>(last)};
    }
    Buffer<Cutoff> candidates;
    candidates.reserve(searched);
    visit([&](std::size_t i, double v) {
        if (is_left(v)) candidates.push_back({v, static_cast<double>(i)});
    });
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(left - 1);
    std::nth_element(candidates.begin(), end, candidates.end(),
                     [](const Cutoff& a, const Cutoff& b) {
                         return a.size != b.size ? a.size > b.size : a.index < b.index;
                     });
    return *end;
}
// The cutoff that chooses the `count` largest magnitudes of a row.
inline Cutoff cutoff_of_magnitudes(const RowReader& x, std::size_t count) {
    return cutoff_of(x.size, count, [&](auto&& f) {
        for (std::size_t first = 0; first < x.size; first += sum_block) {
            const std::span<const double> part = x.read(first, std::min(sum_block, x.size - first));
            for (std::size_t i = 0; i < part.size(); ++i) f(first + i, absolute(part[i]));
        }
    });
}

// The indices, ascending, of the `count` largest of size(0), ..., size(n - 1).
template <class Size>
Buffer<std::size_t> largest(std::size_t n, std::size_t count, Size&& size) {
    const Cutoff cutoff = cutoff_of(n, count, [&](auto&& f) {
        for (std::size_t i = 0; i < n; ++i) f(i, size(i));
    });
    // The array has one more element than `count`, because an index that is not selected is written
    // and then overwritten by the next index.
    Buffer<std::size_t> index(std::min(n, count) + 1);
    std::size_t selected = 0;
    for (std::size_t i = 0; i < n; ++i) {
        index[selected] = i;
        selected += cutoff.keeps(size(i), i) ? 1 : 0;
    }
    index.resize(selected);
    return index;
}

// The number of elements in a share of n elements, rounded down, but at least one if n > 0.
inline std::size_t kept_of(std::size_t n, double share) {
    return n == 0
               ? 0
               : std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(n) * share));
}

// The number of bits of an index below n. If `packed`, this is the smallest possible number (0 if n
// is 1); otherwise 32, or more if 32 bits are too few.
inline int place_bits(std::size_t n, bool packed) {
    const int needed = static_cast<int>(std::bit_width(n == 0 ? n : n - 1));
    return packed ? needed : std::max(32, needed);
}

}  // namespace apscope::detail
