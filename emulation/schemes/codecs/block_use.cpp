#include "emulation/schemes/codecs/block_use.h"

#include <algorithm>
#include <cstring>

#include "core/rounding.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Finds the bit patterns of the smallest and the largest magnitude that is finite and not 0.
struct Extremes {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, std::uint64_t* least,
                                   std::uint64_t* most) {
        std::uint64_t low = *least, high = *most;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t size = bits_cast<std::uint64_t>(x[i]) & ~sign_bit<double>;
            const std::uint64_t small =
                (size != 0) & (size < infinity_bits<double>) ? size : infinity_bits<double>;
            const std::uint64_t large = size < infinity_bits<double> ? size : 0;
            low = small < low ? small : low;
            high = large > high ? large : high;
        }
        *least = low;
        *most = high;
    }
};

}  // namespace

void BlockUse::add(std::span<const double> piece, std::span<const std::uint8_t> marks,
                   std::size_t first, std::size_t count, double scale, bool begins, bool ends) {
    Part part;
    part.scale = scale;
    simd::run<Extremes>(piece.data() + first, count, &part.least, &part.most);
    part.saturated = !marks.empty() && std::memchr(marks.data() + first, 1, count) != nullptr;
    if (begins && ends) {
        add(part);
    } else if (begins) {
        tail = part;
    } else {
        head = part;
        head_ends = ends;
    }
}

void BlockUse::add(const Part& block) {
    if (block.most == 0) return;
    const int range = exponent_of<double>(block.most) - exponent_of<double>(block.least);
    ++blocks;
    saturated += block.saturated ? 1 : 0;
    range_sum += static_cast<std::uint64_t>(range);
    range_max = std::max(range_max, range);
    if (!(block.scale > 0.0)) return;
    const int exponent = exponent_of<double>(bits_cast<std::uint64_t>(block.scale));
    scale_min = std::min(scale_min, exponent);
    scale_max = std::max(scale_max, exponent);
}

void BlockUse::append(const BlockUse& next) {
    if (next.head) {
        Part block = *next.head;
        if (tail) {
            block.least = std::min(block.least, tail->least);
            block.most = std::max(block.most, tail->most);
            block.saturated = block.saturated || tail->saturated;
        }
        tail.reset();
        if (next.head_ends) add(block);
        else tail = block;
    }
    if (next.tail) tail = next.tail;
    merge(next);
}

}  // namespace apscope::detail
