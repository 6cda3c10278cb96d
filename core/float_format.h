// FloatFormat: a floating-point number system as a value. The fields define the format; its limits
// are derived from the fields, never stored. A code has the bits
//
//      s eeee mmm        sign (if is_signed), exponent field, stored significand bits
//
// and the codes of one sign are ordered like their magnitudes. From the top of that order downwards
// lie `nan_codes` NaNs, then one infinity (if has_infinity), then the largest finite value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace apscope {

// The codes that are zero.
enum class Zero {
    both_signs,  // +0 and -0 (IEEE 754)
    single,      // +0 only; the code of -0 is a NaN (FNUZ, P3109), a second +0 or does not exist
                 // (unsigned)
    none,        // code 0 is an ordinary value (E8M0)
};

struct FloatFormat {
    int exponent_bits = 8;              // width of the exponent field, 0..11
    int mantissa_bits = 23;             // stored significand bits, precision - 1, 0..52
    int bias = 127;                     // value = 2^(field - bias) * (1 + fraction)
    bool is_signed = true;              // unsigned formats have no sign bit
    bool subnormals = true;             // false: exponent field 0 is an ordinary binade
    int subnormal_exponent = -126;      // exponent of field 0 if subnormals; usually 1 - bias
    Zero zero = Zero::both_signs;       // the codes that are zero
    std::uint64_t nan_codes = 0;        // codes per sign, at the top, that are NaN
    bool has_infinity = false;          // one code per sign, just below the NaN codes
    bool nan_at_negative_zero = false;  // the code of -0 is NaN
    bool even_code_ties = false;        // precision 1 only: ties go to the even code (P3109), not
                                        // to the larger magnitude (IEEE 754)

    friend constexpr bool operator==(const FloatFormat&, const FloatFormat&) = default;

    // Derived -----------------------------------------------------------------------------------
    constexpr int storage_bits() const {
        return (is_signed ? 1 : 0) + exponent_bits + mantissa_bits;
    }
    constexpr int precision() const { return mantissa_bits + 1; }
    // Exponent of the smallest quantum, which is the quantum of the subnormals or of the lowest
    // binade.
    constexpr int finest_exponent() const {
        return (subnormals ? subnormal_exponent : emin()) - mantissa_bits;
    }
    // Exponent of the smallest normal number.
    constexpr int emin() const { return subnormals ? 1 - bias : -bias; }
    // floor(log2(largest finite value)), which the rules for scales call emax.
    constexpr int emax() const;
    constexpr bool has_nan() const { return nan_codes > 0 || nan_at_negative_zero; }
    // The number of codes per sign, and the code of the largest finite value.
    constexpr std::uint64_t magnitude_codes() const {
        return std::uint64_t{1} << (exponent_bits + mantissa_bits);
    }
    constexpr std::uint64_t top_finite_code() const {
        return magnitude_codes() - 1 - nan_codes - (has_infinity ? 1 : 0);
    }
    constexpr std::uint64_t nan_code() const;  // the canonical NaN's code; throws if there is none
    constexpr std::uint64_t infinity_code() const;  // +infinity's code; throws if there is none
    // The value of a code without its sign bit; `code` must be at most top_finite_code().
    constexpr double magnitude(std::uint64_t code) const;
    constexpr double largest() const { return magnitude(top_finite_code()); }
    constexpr double smallest_normal() const;    // 0 if the format has no normal number
    constexpr double smallest_positive() const;  // the smallest subnormal if there is one
    // True if every finite value is an fp32 number. The values of such formats are stored in fp32,
    // the values of other formats in fp64.
    constexpr bool fits_fp32() const;

    // Text --------------------------------------------------------------------------------------
    // The shortest name that parse_format reads as this format.
    std::string name() const;
    std::size_t hash() const;
};

// Families of special values: the usual settings of the fields above.
enum class Specials {
    ieee,            // top exponent field: infinity and NaNs; both zeros
    fn,              // no infinity; the top code of each sign is NaN (OCP E4M3)
    fnuz,            // no infinity, NaN at the code of -0, one zero
    finite,          // no NaN, no infinity (OCP FP4 and FP6 elements)
    e8m0,            // unsigned powers of two, top code NaN, no zero (OCP scale)
    p3109_extended,  // IEEE P3109: one zero, one NaN, infinities
    p3109_finite,    // IEEE P3109: one zero, one NaN, no infinity
};

// A format with the special values of `specials` and the usual bias of that family.
constexpr FloatFormat make_format(int exponent_bits, int mantissa_bits,
                                  Specials specials = Specials::ieee, bool is_signed = true);
// The P3109 format BinaryKpP{s,u}{e,f}: K storage bits, precision P, signed or unsigned, extended
// or finite.
constexpr FloatFormat make_p3109(int storage_bits, int precision, bool is_signed, bool extended);
// The format f with another bias, which multiplies its values by a power of two. Throws
// std::invalid_argument for a bias out of range.
constexpr FloatFormat with_bias(FloatFormat f, int bias);

Specials parse_specials(std::string_view name);
std::string_view specials_names();  // the names of Specials for messages, "ieee, fn, ..."

// Throws std::invalid_argument with one sentence if the fields contradict each other or fp64 cannot
// represent a finite value of the format.
void validate(const FloatFormat& format);
// Throws std::invalid_argument unless format.fits_fp32(). `what`, such as "a scheme", names the
// part of apscope that needs fp32 numbers.
void require_fp32(const FloatFormat& format, std::string_view what);

// Derived from the fields ---------------------------------------------------------------------

namespace detail {

// Returns integer * 2^exponent, for an integer of at most 53 bits. The result is exact if fp64 can
// represent it, otherwise it is infinite or truncated. The function assembles the bits of the
// result, so a processor that flushes subnormal numbers does not change it.
constexpr double times_power_of_two(std::uint64_t integer, int exponent) {
    if (integer == 0) return 0.0;
    const int width = 64 - std::countl_zero(integer),
              top = exponent + width - 1;  // floor(log2(result))
    if (top > 1023) return std::numeric_limits<double>::infinity();
    if (top >= -1022) {
        const std::uint64_t significand =
            width <= 53 ? integer << (53 - width) : integer >> (width - 53);
        const std::uint64_t fraction = significand & ((std::uint64_t{1} << 52) - 1);
        return std::bit_cast<double>(static_cast<std::uint64_t>(top + 1023) << 52 | fraction);
    }
    const int left = exponent + 1074;  // the quantum of fp64's subnormal numbers is 2^-1074
    if (left <= -64) return 0.0;
    return std::bit_cast<double>(left >= 0 ? integer << left : integer >> -left);
}

// floor(log2(x)) for x > 0; the largest int for infinity.
constexpr int floor_log2(double x) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
    const int field = static_cast<int>(bits >> 52);
    if (field == 2047) return std::numeric_limits<int>::max();
    return field != 0 ? field - 1023 : -1011 - std::countl_zero(bits);
}

// Throws with the message "the format NAME has no WHAT".
[[noreturn]] void refuse_format(const FloatFormat& f, std::string_view what);
// Returns whether a bias is allowed: with any other bias, every value is outside fp64's range.
constexpr bool is_bias(int bias) { return bias >= -2200 && bias <= 2200; }
[[noreturn]] void refuse_bias(int bias);
[[noreturn]] void refuse_p3109(int storage_bits, int precision, bool is_signed);

}  // namespace detail

constexpr double FloatFormat::magnitude(std::uint64_t code) const {
    const std::uint64_t field = code >> mantissa_bits;
    const std::uint64_t fraction = code & ((std::uint64_t{1} << mantissa_bits) - 1);
    if (field == 0 && subnormals) {
        return detail::times_power_of_two(fraction, subnormal_exponent - mantissa_bits);
    }
    if (code == 0 && zero != Zero::none) return 0.0;
    const std::uint64_t significand = (std::uint64_t{1} << mantissa_bits) + fraction;
    return detail::times_power_of_two(significand, static_cast<int>(field) - bias - mantissa_bits);
}

constexpr int FloatFormat::emax() const { return detail::floor_log2(largest()); }

constexpr double FloatFormat::smallest_normal() const {
    if (!subnormals) return smallest_positive();
    const std::uint64_t code = std::uint64_t{1} << mantissa_bits;  // field 1, fraction 0
    return code <= top_finite_code() ? magnitude(code) : 0.0;
}

constexpr double FloatFormat::smallest_positive() const {
    return magnitude(zero == Zero::none ? 0 : 1);
}

constexpr std::uint64_t FloatFormat::infinity_code() const {
    if (!has_infinity) detail::refuse_format(*this, "infinity");
    return magnitude_codes() - 1 - nan_codes;
}

constexpr std::uint64_t FloatFormat::nan_code() const {
    if (nan_at_negative_zero) return magnitude_codes();
    if (nan_codes == 0) detail::refuse_format(*this, "NaN");
    // Of the NaN codes of an IEEE 754 format, the canonical one has only the quiet bit set in its
    // significand. A format with one NaN code per sign has no other choice.
    return has_infinity ? infinity_code() + (nan_codes + 1) / 2 : magnitude_codes() - 1;
}

constexpr bool FloatFormat::fits_fp32() const {
    return mantissa_bits <= 23 && finest_exponent() >= -149 && largest() <= 0x1.fffffep127;
}

constexpr FloatFormat with_bias(FloatFormat f, int bias) {
    if (!detail::is_bias(bias)) detail::refuse_bias(bias);
    f.subnormal_exponent += f.bias - bias;
    f.bias = bias;
    return f;
}

constexpr FloatFormat make_format(int exponent_bits, int mantissa_bits, Specials specials,
                                  bool is_signed) {
    FloatFormat f;
    f.exponent_bits = exponent_bits;
    f.mantissa_bits = mantissa_bits;
    f.is_signed = is_signed;
    f.zero = is_signed ? Zero::both_signs : Zero::single;
    f.bias = exponent_bits > 0 && exponent_bits < 32 ? (1 << (exponent_bits - 1)) - 1 : 0;
    const bool sane = mantissa_bits >= 0 && mantissa_bits < 64;
    switch (specials) {
        case Specials::ieee:
            f.has_infinity = true;
            f.nan_codes = sane ? (std::uint64_t{1} << mantissa_bits) - 1 : 0;
            break;
        case Specials::fn: f.nan_codes = 1; break;
        case Specials::fnuz:
            f.bias += 1;
            f.zero = Zero::single;
            f.nan_at_negative_zero = is_signed;
            f.nan_codes = is_signed ? 0 : 1;
            break;
        case Specials::finite: break;
        case Specials::e8m0:
            f.is_signed = false;
            f.subnormals = false;
            f.zero = Zero::none;
            f.nan_codes = 1;
            break;
        case Specials::p3109_extended:
        case Specials::p3109_finite:
            f.bias += 1;
            f.zero = Zero::single;
            f.has_infinity = specials == Specials::p3109_extended;
            f.nan_at_negative_zero = is_signed;
            f.nan_codes = is_signed ? 0 : 1;
            f.even_code_ties = mantissa_bits == 0;
            break;
    }
    f.subnormal_exponent = 1 - f.bias;
    return f;
}

constexpr FloatFormat make_p3109(int storage_bits, int precision, bool is_signed, bool extended) {
    if (storage_bits < 3) detail::refuse_p3109(storage_bits, precision, is_signed);
    const int widest = is_signed ? storage_bits - 1 : storage_bits;
    if (precision < 1 || precision > widest || widest - (precision - 1) > 11) {
        detail::refuse_p3109(storage_bits, precision, is_signed);
    }
    FloatFormat f =
        make_format(widest - (precision - 1), precision - 1,
                    extended ? Specials::p3109_extended : Specials::p3109_finite, is_signed);
    // The bias is 2^(K-P-1) if signed and 2^(K-P) if unsigned: 2^(exponent_bits - 1) in both cases.
    f.bias = 1 << (f.exponent_bits - 1);
    f.subnormal_exponent = 1 - f.bias;
    return f;
}

}  // namespace apscope

template <>
struct std::hash<apscope::FloatFormat> {
    std::size_t operator()(const apscope::FloatFormat& f) const { return f.hash(); }
};
