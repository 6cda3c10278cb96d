// FloatFormat: a floating-point number system as a value.
//
// A format is what its fields say and nothing more: limits are derived from the fields, never
// stored. A code has the bits
//
//      s eeee mmm        sign (if is_signed), exponent field, stored significand bits
//
// and the codes of one sign are ordered like the magnitudes they stand for. From the top of that
// order downwards lie `nan_codes` NaNs, then one infinity (if has_infinity), then the largest
// finite value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace apscope {

// Which codes mean zero.
enum class Zero {
    both_signs,  // +0 and -0 (IEEE 754)
    single,      // +0 only; the code of -0 is free (FNUZ, P3109) or does not exist (unsigned)
    none,        // code 0 is an ordinary value (E8M0)
};

struct FloatFormat {
    int exponent_bits = 8;            // width of the exponent field, 0..11
    int mantissa_bits = 23;           // stored significand bits, precision - 1, 0..52
    int bias = 127;                   // value = 2^(field - bias) * (1 + fraction)
    bool is_signed = true;            // unsigned formats have no sign bit
    bool subnormals = true;           // false: exponent field 0 is an ordinary binade
    int subnormal_exponent = -126;    // exponent of field 0 if subnormals; usually 1 - bias
    Zero zero = Zero::both_signs;     //
    std::uint64_t nan_codes = 0;      // codes per sign, at the top, that are NaN
    bool has_infinity = false;        // one code per sign, just below the NaN codes
    bool nan_at_negative_zero = false;  // the code of -0 is NaN
    bool even_code_ties = false;      // precision 1 only: ties go to the even code (P3109), not
                                      // to the larger magnitude (IEEE 754)

    friend bool operator==(const FloatFormat&, const FloatFormat&) = default;

    // Derived -----------------------------------------------------------------------------------
    int storage_bits() const { return (is_signed ? 1 : 0) + exponent_bits + mantissa_bits; }
    int precision() const { return mantissa_bits + 1; }
    // Exponent of the smallest normal number.
    int emin() const { return subnormals ? 1 - bias : -bias; }
    // floor(log2(largest finite value)); the "emax" of scale rules.
    int emax() const;
    bool has_nan() const { return nan_codes > 0 || nan_at_negative_zero; }
    std::uint64_t magnitude_codes() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
    std::uint64_t top_finite_code() const { return magnitude_codes() - 1 - nan_codes - (has_infinity ? 1 : 0); }
    std::uint64_t nan_code() const;       // the canonical NaN's code; throws if there is none
    std::uint64_t infinity_code() const;  // +infinity's code; throws if there is none
    // The value of a code without its sign bit; `code` must be at most top_finite_code().
    double magnitude(std::uint64_t code) const;
    double largest() const { return magnitude(top_finite_code()); }
    double smallest_normal() const;       // 0 if the format has no normal number
    double smallest_positive() const;     // the smallest subnormal where there is one
    // Whether every finite value is an fp32 number: such formats are stored in fp32, the others,
    // whose values are fp64 numbers, in fp64.
    bool fits_fp32() const;

    // Text --------------------------------------------------------------------------------------
    // The shortest name from which parse_format gives this format back.
    std::string name() const;
    std::size_t hash() const;
};

// Families of special values, the presets that the fields above are usually filled from.
enum class Specials {
    ieee,    // top exponent field: infinity and NaNs; both zeros
    fn,      // finite + NaN: the top code of each sign is NaN, no infinity (OCP E4M3)
    fnuz,    // finite, NaN at the code of -0, one zero
    finite,  // no NaN, no infinity (OCP FP4 and FP6 elements)
    e8m0,    // unsigned powers of two, top code NaN, no zero (OCP scale)
    p3109_extended,  // IEEE P3109: one zero, one NaN, infinities
    p3109_finite,    // IEEE P3109: one zero, one NaN, no infinity
};

// A format with the special values of `specials` and the usual bias of that family.
FloatFormat make_format(int exponent_bits, int mantissa_bits, Specials specials = Specials::ieee,
                        bool is_signed = true);
// P3109 BinaryKpP{s,u}{e,f}.
FloatFormat make_p3109(int storage_bits, int precision, bool is_signed, bool extended);

Specials parse_specials(std::string_view name);
std::string_view specials_names();  // "ieee, fn, ..." for messages

// Throws std::invalid_argument with one sentence if the fields contradict each other or the format
// holds a finite value that fp64 does not.
void validate(const FloatFormat& format);
// The same for `what` (say, "a scheme") that works on fp32 numbers: formats must be stored in fp32.
void require_fp32(const FloatFormat& format, std::string_view what);

}  // namespace apscope

template <>
struct std::hash<apscope::FloatFormat> {
    std::size_t operator()(const apscope::FloatFormat& f) const { return f.hash(); }
};
