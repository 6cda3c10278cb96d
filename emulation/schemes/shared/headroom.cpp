#include "emulation/schemes/shared/headroom.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace apscope::detail {

namespace {

// A positive integer times a power of two.
struct Scaled {
    unsigned __int128 integer;
    int exponent;
};

Scaled exact(double fp32_number) {
    int exponent = 0;
    const double fraction = std::frexp(fp32_number, &exponent);  // 24 significant bits
    return {static_cast<std::uint64_t>(fraction * 0x1p24), exponent - 24};
}

int bit_length(unsigned __int128 x) {
    const auto high = static_cast<std::uint64_t>(x >> 64);
    return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(x));
}

int ceil_log2(const Scaled& x) {
    const int length = bit_length(x.integer);
    const bool power = (x.integer & (x.integer - 1)) == 0;
    return length - (power ? 1 : 0) + x.exponent;
}

int floor_half(int x) { return x >= 0 ? x / 2 : -((1 - x) / 2); }

// (H amax)^2, exact for all three headrooms.
Scaled square(double amax, int workers, Headroom headroom) {
    const Scaled a = exact(amax);
    Scaled result{a.integer * a.integer, 2 * a.exponent};
    const auto w = static_cast<unsigned __int128>(workers);
    if (headroom == Headroom::sqrt_workers) result.integer *= w;
    else if (headroom == Headroom::workers) result.integer *= w * w;
    return result;
}

}  // namespace

SchemeKey headroom_key(std::string_view default_value, std::string_view meaning) {
    return {"headroom", default_value, meaning};
}

Headroom headroom_of(const SchemeArguments& arguments) {
    // in the order of enum Headroom
    constexpr std::array<std::string_view, 3> choices{"workers", "sqrt_workers", "one"};
    return arguments.one_of<Headroom>("headroom", choices);
}

int exponent_with_headroom(double amax, int workers, Headroom headroom) {
    // This is the smallest k with (H amax)^2 <= 2^(2k).
    return -floor_half(-ceil_log2(square(amax, workers, headroom)));
}

int largest_shift_within(double amax, int workers, Headroom headroom, double limit) {
    // The result is the largest s with (H amax)^2 2^(2s) <= limit^2. The loop below raises s from a
    // start that is too small.
    const Scaled a = square(amax, workers, headroom), l = square(limit, 1, Headroom::one);
    int s =
        floor_half((bit_length(l.integer) + l.exponent) - (bit_length(a.integer) + a.exponent)) - 2;
    const auto fits = [&](int shift) {
        // Tests a.integer 2^(a.exponent + 2 shift) <= l.integer 2^l.exponent. The integers stay
        // within 128 bits, because the magnitudes are close.
        const int difference = a.exponent + 2 * shift - l.exponent;
        return difference >= 0 ? bit_length(a.integer) + difference <= 127 &&
                                     (a.integer << difference) <= l.integer
               : bit_length(l.integer) - difference <= 127 ? a.integer <= l.integer << -difference
                                                           : true;
    };
    while (fits(s + 1)) ++s;
    return s;
}

}  // namespace apscope::detail
