#include "emulation/schemes/codecs/ascending.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/bits.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

constexpr std::uint32_t sign = 0x80000000u;

// The integer key of x. Keys have the order of the numbers.
APSCOPE_INLINE std::uint32_t key_of(float x) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    return bits & sign ? ~bits : bits | sign;
}
APSCOPE_INLINE float number_of(std::uint32_t key) {
    return bits_cast<float>(key & sign ? key & ~sign : ~key);
}

struct TakeKeys {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, std::uint32_t* keys) {
        for (std::size_t i = 0; i < count; ++i) keys[i] = key_of(static_cast<float>(x[i] + 0.0));
    }
};
struct GiveNumbers {
    static APSCOPE_INLINE void run(const std::uint32_t* keys, std::size_t count, double* x) {
        for (std::size_t i = 0; i < count; ++i) x[i] = number_of(keys[i]);
    }
};

constexpr std::size_t lanes = 16;
using Keys [[gnu::vector_size(4 * lanes)]] = std::uint32_t;

// A bitonic sorting network; `count` is a power of two, at least 16. The network sorts runs of 2,
// 4, 8, ... keys. One half of a run is compared with the mirror image of the other half, then keys
// that are a quarter of the run's length apart, then an eighth, and so on; of two compared keys,
// the smaller comes first.
//
//      runs of 8:  0-7 1-6 2-5 3-4, then 0-2 1-3 4-6 5-7, then 0-1 2-3 4-5 6-7
struct SortKeys {
    static APSCOPE_INLINE void order(Keys& a, Keys& b) {
        const Keys smaller = a < b ? a : b;
        b = a < b ? b : a;
        a = smaller;
    }
    // Moves lane l to lane l ^ Change.
    template <int Change>
    static APSCOPE_INLINE void exchange(Keys& v) {
        constexpr int c = Change;
        v = __builtin_shufflevector(v, v, 0 ^ c, 1 ^ c, 2 ^ c, 3 ^ c, 4 ^ c, 5 ^ c, 6 ^ c, 7 ^ c,
                                    8 ^ c, 9 ^ c, 10 ^ c, 11 ^ c, 12 ^ c, 13 ^ c, 14 ^ c, 15 ^ c);
    }
    // Compares lane l with lane l ^ Change. The smaller key goes to the lane whose index does not
    // have Bit.
    template <int Change, std::uint32_t Bit>
    static APSCOPE_INLINE void order_lanes(Keys& v) {
        constexpr Keys place{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        Keys low = v, high = v;
        exchange<Change>(high);
        order(low, high);
        v = (place & Bit) != 0 ? high : low;
    }
    static APSCOPE_INLINE void load(const std::uint32_t* from, Keys& v) {
        __builtin_memcpy(&v, from, sizeof v);
    }
    static APSCOPE_INLINE void store(const Keys& v, std::uint32_t* to) {
        __builtin_memcpy(to, &v, sizeof v);
    }

    static APSCOPE_INLINE void run(std::uint32_t* keys, std::size_t count) {
        for (std::size_t i = 0; i < count; i += lanes) {
            Keys v;
            load(keys + i, v);
            order_lanes<1, 1>(v);
            order_lanes<3, 2>(v);
            order_lanes<1, 1>(v);
            order_lanes<7, 4>(v);
            order_lanes<2, 2>(v);
            order_lanes<1, 1>(v);
            order_lanes<15, 8>(v);
            order_last(v);
            store(v, keys + i);
        }
        for (std::size_t run = 2 * lanes; run <= count; run *= 2) {
            for (std::size_t begin = 0; begin < count; begin += run) mirror(keys + begin, run);
            for (std::size_t half = run / 4; half >= lanes; half /= 2) {
                for (std::size_t begin = 0; begin < count; begin += 2 * half)
                    halves(keys + begin, half);
            }
            for (std::size_t i = 0; i < count; i += lanes) {
                Keys v;
                load(keys + i, v);
                order_lanes<8, 8>(v);
                order_last(v);
                store(v, keys + i);
            }
        }
    }
    static APSCOPE_INLINE void order_last(Keys& v) {
        order_lanes<4, 4>(v);
        order_lanes<2, 2>(v);
        order_lanes<1, 1>(v);
    }
    static APSCOPE_INLINE void mirror(std::uint32_t* keys, std::size_t count) {
        for (std::size_t i = 0; i < count / 2; i += lanes) {
            std::uint32_t* other = keys + count - lanes - i;
            Keys low, high;
            load(keys + i, low);
            load(other, high);
            exchange<lanes - 1>(high);
            order(low, high);
            store(low, keys + i);
            exchange<lanes - 1>(high);
            store(high, other);
        }
    }
    static APSCOPE_INLINE void halves(std::uint32_t* keys, std::size_t half) {
        for (std::size_t i = 0; i < half; i += lanes) {
            Keys low, high;
            load(keys + i, low);
            load(keys + half + i, high);
            order(low, high);
            store(low, keys + i);
            store(high, keys + half + i);
        }
    }
};

constexpr std::size_t few = 4096;  // up to this many keys the network is faster than sort_digits()
constexpr int width = 11;          // bits of a digit
constexpr std::size_t size = std::size_t{1} << width;
constexpr int digits = 3;

}  // namespace

void AscendingSort::sort(std::span<const double> x, Row& sorted) {
    const std::size_t n = x.size();
    if (n > std::numeric_limits<std::uint32_t>::max())
        throw std::length_error("a row of " + std::to_string(n) +
                                " elements; at most 2^32 - 1 are sorted");
    if (n <= few) {
        keys_.resize(std::max(lanes, std::bit_ceil(n)));
        simd::run<TakeKeys>(x.data(), n, keys_.data());
        std::fill(keys_.begin() + static_cast<std::ptrdiff_t>(n), keys_.end(),
                  std::numeric_limits<std::uint32_t>::max());
        simd::run<SortKeys>(keys_.data(), keys_.size());
    } else {
        sort_digits(x);
    }
    sorted.resize(n);
    simd::run<GiveNumbers>(static_cast<const std::uint32_t*>(keys_.data()), n, sorted.data());
}

void AscendingSort::sort_digits(std::span<const double> x) {
    const std::size_t n = x.size();
    keys_.resize(n);
    other_.resize(n);
    counts_.assign(size * digits, 0);
    simd::run<TakeKeys>(x.data(), n, keys_.data());
    for (const std::uint32_t key : keys_) {
        for (int d = 0; d < digits; ++d)
            ++counts_[static_cast<std::size_t>(d) * size + (key >> d * width & (size - 1))];
    }
    for (int d = 0; d < digits; ++d) {
        const std::span<std::uint32_t> place =
            std::span(counts_).subspan(static_cast<std::size_t>(d) * size, size);
        if (std::find(place.begin(), place.end(), n) != place.end())
            continue;  // all keys have the same digit
        std::uint32_t before = 0;
        for (std::uint32_t& p : place) {
            const std::uint32_t count = p;
            p = before;
            before += count;
        }
        for (const std::uint32_t key : keys_) other_[place[key >> d * width & (size - 1)]++] = key;
        keys_.swap(other_);
    }
}

}  // namespace apscope::detail
