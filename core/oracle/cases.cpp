#include "core/oracle/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <type_traits>

namespace apscope::detail::oracle {
namespace {

template <class Real>
using BitsOf = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
template <class Real>
constexpr int fraction_bits = std::numeric_limits<Real>::digits - 1;
template <class Real>
constexpr BitsOf<Real> sign_bit = BitsOf<Real>{1} << (sizeof(Real) * 8 - 1);
template <class Real>
const BitsOf<Real> infinity_bits =
    std::bit_cast<BitsOf<Real>>(std::numeric_limits<Real>::infinity());

// The value of a magnitude code, which may be above the format's last code.
double value(const FloatFormat& f, std::uint64_t code) {
    const double hidden = std::ldexp(1.0, f.mantissa_bits);
    const auto field = static_cast<int>(code >> f.mantissa_bits);
    const auto fraction = static_cast<double>(code & ((std::uint64_t{1} << f.mantissa_bits) - 1));
    if (field == 0 && f.subnormals)
        return std::ldexp(fraction, f.subnormal_exponent - f.mantissa_bits);
    if (code == 0 && f.zero != Zero::none) return 0.0;
    return std::ldexp(hidden + fraction, field - f.bias - f.mantissa_bits);
}

template <class Real>
class Collector {
public:
    using Bits = BitsOf<Real>;

    // Adds the number nearest to x, and the `steps` numbers below and above that number.
    void around(double x, int steps) {
        const auto bits = std::bit_cast<Bits>(static_cast<Real>(x));
        for (int i = -steps; i <= steps; ++i) exactly_if_number(bits, i);
    }
    // Adds the fp64 numbers at a relative distance of 2^-40 from x, which are not fp32 numbers if x
    // has few bits.
    void beside(double x) {
        if constexpr (std::is_same_v<Real, double>) {
            for (const int step : {-(1 << 12), 1 << 12})
                exactly_if_number(std::bit_cast<Bits>(x), step);
        }
    }
    void exactly(Bits bits) { bits_.push_back(bits); }
    void with_both_signs() {
        const std::size_t n = bits_.size();
        for (std::size_t i = 0; i < n; ++i) bits_.push_back(bits_[i] ^ sign_bit<Real>);
    }
    std::vector<Real> sorted() {
        std::sort(bits_.begin(), bits_.end());
        bits_.erase(std::unique(bits_.begin(), bits_.end()), bits_.end());
        std::vector<Real> result(bits_.size());
        std::transform(bits_.begin(), bits_.end(), result.begin(),
                       [](Bits b) { return std::bit_cast<Real>(b); });
        return result;
    }

private:
    void exactly_if_number(Bits bits, int step) {
        const Bits place = bits + static_cast<Bits>(step);  // below 0, `place` wraps around to more
                                                            // than infinity's bits
        if (place <= infinity_bits<Real>) bits_.push_back(place);
    }

    std::vector<Bits> bits_;
};

template <class Real>
void add_code(Collector<Real>& inputs, const FloatFormat& f, std::uint64_t code) {
    const double here = value(f, code), midpoint = here + (value(f, code + 1) - here) / 2;
    inputs.around(here, 1);
    inputs.around(midpoint, 1);
    inputs.beside(here);
    inputs.beside(midpoint);
}

// The codes near both ends, the thirds and the middle of every binade.
std::set<std::uint64_t> boundary_codes(const FloatFormat& f) {
    std::set<std::uint64_t> codes;
    const std::uint64_t hidden = std::uint64_t{1} << f.mantissa_bits;
    for (std::uint64_t first = 0; first <= f.top_finite_code(); first += hidden) {
        for (const std::uint64_t offset :
             {std::uint64_t{0}, hidden / 3, hidden / 2, hidden / 3 * 2, hidden}) {
            for (std::uint64_t code = first + offset - std::min<std::uint64_t>(3, first + offset);
                 code <= first + offset + 3; ++code) {
                if (code <= f.top_finite_code()) codes.insert(code);
            }
        }
    }
    return codes;
}

template <class Real>
void add_nans(Collector<Real>& inputs) {
    using Bits = BitsOf<Real>;
    const Bits ones = (Bits{1} << fraction_bits<Real>)-1, infinity = infinity_bits<Real>;
    for (int i = 0; i < fraction_bits<Real>; ++i) {
        const Bits bit = Bits{1} << i, quiet = Bits{1} << (fraction_bits<Real> - 1);
        for (const Bits fraction : {bit, bit | quiet, ones - bit, bit - 1, (bit - 1) | quiet}) {
            if (fraction != 0) inputs.exactly(infinity | fraction);
        }
    }
    for (const int divisor : {1, 3, 5, 7, 255}) inputs.exactly(infinity | ones / divisor);
}

// A random number whose exponent is in the range of the format's exponents, or a few binades
// outside.
double near_the_range(const FloatFormat& f, std::uint64_t draw, std::uint64_t fraction) {
    const int low = std::ilogb(value(f, f.zero == Zero::none ? 0 : 1)) - f.mantissa_bits - 4;
    const int count = std::max(std::ilogb(value(f, f.top_finite_code())) + 4 - low, 1);
    const int exponent = low + static_cast<int>(draw / 2 % static_cast<std::uint64_t>(count));
    const double x = std::ldexp(1.0 + static_cast<double>(fraction >> 12) * 0x1p-52, exponent);
    return draw % 2 != 0 ? -x : x;
}

}  // namespace

template <class Real>
std::vector<Real> cases(const FloatFormat& format, std::size_t random_cases, std::uint64_t seed) {
    using Bits = BitsOf<Real>;
    constexpr bool narrow = std::is_same_v<Real, float>;
    Collector<Real> inputs;
    if (format.storage_bits() <= full_storage_bits) {
        for (std::uint64_t code = 0; code <= format.top_finite_code(); ++code)
            add_code(inputs, format, code);
    } else {
        for (const std::uint64_t code : boundary_codes(format)) add_code(inputs, format, code);
    }
    // The limits of the format, with more neighbours: near zero, at the largest value, and in the
    // binades above the largest value.
    const double smallest = value(format, format.zero == Zero::none ? 0 : 1);
    const double largest = value(format, format.top_finite_code());
    const double next = value(format, format.top_finite_code() + 1);
    for (const double edge : {0.0, smallest / 4, smallest / 2, smallest, smallest * 0.75,
                              smallest * 1.5, std::ldexp(1.0, format.emin()), largest,
                              largest + (next - largest) / 2, next, 2 * next, 4 * next}) {
        inputs.around(edge, 8);
    }
    // A quarter and three quarters of a step, for the directed modes and stochastic rounding.
    for (std::uint64_t code = 0; code < 64 && code <= format.top_finite_code(); ++code) {
        const double low = value(format, code), step = value(format, code + 1) - low;
        inputs.around(low + step / 4, 1);
        inputs.around(low + step * 3 / 4, 1);
        inputs.around(low + step / 65536, 1);
        inputs.beside(low + step / 4);
        inputs.beside(low + step / 65536);
    }
    // The powers of two of Real with their neighbours, subnormals included; in fp64, only every
    // 16th of the powers far from the format's range.
    const int low = std::ilogb(smallest) - 64, high = std::ilogb(largest) + 64;
    for (int exponent = narrow ? -149 : -1074; exponent <= (narrow ? 127 : 1023); ++exponent) {
        const bool far = !narrow && (exponent < low || exponent > high);
        if (!far || exponent % 16 == 0) inputs.around(std::ldexp(1.0, exponent), 1);
    }
    inputs.around(std::numeric_limits<Real>::max(), 4);
    const Bits subnormals = (Bits{1} << fraction_bits<Real>)-1;
    for (const Bits bits : {Bits{1}, Bits{3}, subnormals / 24, subnormals, infinity_bits<Real>})
        inputs.exactly(bits);
    add_nans(inputs);
    inputs.with_both_signs();
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < random_cases; ++i) {
        const std::uint64_t draw = random();
        const bool aimed = !narrow && i % 2 != 0;
        inputs.exactly(
            aimed ? std::bit_cast<Bits>(static_cast<Real>(near_the_range(format, draw, random())))
                  : static_cast<Bits>(draw));
    }
    return inputs.sorted();
}

template std::vector<float> cases<float>(const FloatFormat&, std::size_t, std::uint64_t);
template std::vector<double> cases<double>(const FloatFormat&, std::size_t, std::uint64_t);

}  // namespace apscope::detail::oracle
