#include "tests/oracle/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace apscope::oracle {
namespace {

constexpr std::uint32_t infinity_bits = 0x7F800000;
constexpr std::uint32_t sign_bit = 0x80000000;

// The value of a magnitude code; codes go on above the format's last one.
double value(const FloatFormat& f, std::uint64_t code) {
    const double hidden = std::ldexp(1.0, f.mantissa_bits);
    const auto field = static_cast<int>(code >> f.mantissa_bits);
    const double fraction = std::fmod(static_cast<double>(code), hidden);
    if (field == 0 && f.subnormals) return std::ldexp(fraction, f.subnormal_exponent - f.mantissa_bits);
    if (code == 0 && f.zero != Zero::none) return 0.0;
    return std::ldexp(hidden + fraction, field - f.bias - f.mantissa_bits);
}

class Collector {
public:
    // Adds the fp32 numbers from `steps` below the fp32 number nearest to x to `steps` above it.
    void around(double x, int steps) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
        for (std::int64_t b = std::int64_t{bits} - steps; b <= std::int64_t{bits} + steps; ++b) {
            if (b >= 0 && b <= infinity_bits) bits_.push_back(static_cast<std::uint32_t>(b));
        }
    }
    void exactly(std::uint32_t bits) { bits_.push_back(bits); }
    void with_both_signs() {
        const std::size_t n = bits_.size();
        for (std::size_t i = 0; i < n; ++i) bits_.push_back(bits_[i] ^ sign_bit);
    }
    std::vector<float> sorted() {
        std::sort(bits_.begin(), bits_.end());
        bits_.erase(std::unique(bits_.begin(), bits_.end()), bits_.end());
        std::vector<float> result(bits_.size());
        std::transform(bits_.begin(), bits_.end(), result.begin(),
                       [](std::uint32_t b) { return std::bit_cast<float>(b); });
        return result;
    }

private:
    std::vector<std::uint32_t> bits_;
};

void add_code(Collector& inputs, const FloatFormat& f, std::uint64_t code) {
    const double here = value(f, code);
    inputs.around(here, 1);
    inputs.around(here + (value(f, code + 1) - here) / 2, 1);
}

// Codes at both ends and in the middle of every binade.
std::set<std::uint64_t> boundary_codes(const FloatFormat& f) {
    std::set<std::uint64_t> codes;
    const std::uint64_t hidden = std::uint64_t{1} << f.mantissa_bits;
    for (std::uint64_t first = 0; first <= f.top_finite_code(); first += hidden) {
        for (const std::uint64_t offset : {std::uint64_t{0}, hidden / 3, hidden / 2, hidden / 3 * 2, hidden}) {
            for (std::uint64_t code = first + offset - std::min<std::uint64_t>(3, first + offset);
                 code <= first + offset + 3; ++code) {
                if (code <= f.top_finite_code()) codes.insert(code);
            }
        }
    }
    return codes;
}

}  // namespace

std::vector<float> cases(const FloatFormat& format, std::size_t random_cases, std::uint64_t seed) {
    Collector inputs;
    if (format.storage_bits() <= full_storage_bits) {
        for (std::uint64_t code = 0; code <= format.top_finite_code(); ++code) add_code(inputs, format, code);
    } else {
        for (const std::uint64_t code : boundary_codes(format)) add_code(inputs, format, code);
    }
    // The edges, with more room: near zero, where values end, and the binade above the largest.
    const double smallest = value(format, format.zero == Zero::none ? 0 : 1);
    const double largest = value(format, format.top_finite_code());
    const double next = value(format, format.top_finite_code() + 1);
    for (const double edge : {0.0, smallest / 4, smallest / 2, smallest, smallest * 0.75, smallest * 1.5,
                              std::ldexp(1.0, format.emin()), largest, largest + (next - largest) / 2, next,
                              2 * next, 4 * next}) {
        inputs.around(edge, 8);
    }
    // A quarter and three quarters of a step: the directed modes, and stochastic rounding.
    for (std::uint64_t code = 0; code < 64 && code <= format.top_finite_code(); ++code) {
        const double low = value(format, code), step = value(format, code + 1) - low;
        inputs.around(low + step / 4, 1);
        inputs.around(low + step * 3 / 4, 1);
        inputs.around(low + step / 65536, 1);
    }
    // fp32 itself: every power of two with its neighbours, subnormals included.
    for (int exponent = -149; exponent <= 127; ++exponent) inputs.around(std::ldexp(1.0, exponent), 1);
    inputs.around(std::numeric_limits<float>::max(), 4);
    for (const std::uint32_t bits : {0x00000001u, 0x00000003u, 0x00055555u, 0x007FFFFFu, infinity_bits,
                                     0x7F800001u, 0x7FA00000u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FC00001u, 0x7FFFFFFFu}) {
        inputs.exactly(bits);
    }
    inputs.with_both_signs();
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < random_cases; ++i) inputs.exactly(static_cast<std::uint32_t>(random()));
    return inputs.sorted();
}

}  // namespace apscope::oracle
