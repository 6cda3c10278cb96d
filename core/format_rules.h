// The rules for the fields of a FloatFormat, and of names with a bias, as constant expressions.
#pragma once

#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "float_format.h"
#include "format_syntax.h"
#include "named_format_table.h"

namespace apscope::detail {

inline std::string described(const FloatFormat& f) {
    return "a format with exponent_bits=" + std::to_string(f.exponent_bits) +
           ", mantissa_bits=" + std::to_string(f.mantissa_bits) +
           ", bias=" + std::to_string(f.bias);
}

// Calls refuse(sentence) with a function that makes the sentence, unless the fields agree with each
// other and fp64 represents all finite values of the format.
template <class Refuse>
constexpr void check_format(const FloatFormat& f, const Refuse& refuse) {
    if (f.exponent_bits < 0 || f.exponent_bits > 11) {
        refuse([&] {
            return "exponent_bits=" + std::to_string(f.exponent_bits) + " is not between 0 and 11";
        });
    }
    if (f.mantissa_bits < 0 || f.mantissa_bits > 52) {
        refuse([&] {
            return "mantissa_bits=" + std::to_string(f.mantissa_bits) + " is not between 0 and 52";
        });
    }
    if (f.exponent_bits + f.mantissa_bits < 1)
        refuse([&] { return "a format needs at least one exponent or mantissa bit"; });
    if (f.exponent_bits == 0 && !f.subnormals) {
        refuse([&] {
            return "exponent_bits=0 without subnormals leaves one binade and no exponent field; "
                   "set "
                   "subnormals";
        });
    }
    if (!is_bias(f.bias)) refuse_bias(f.bias);
    if (f.zero == Zero::both_signs && !f.is_signed)
        refuse([&] { return "an unsigned format has no -0; use zero='single' or 'none'"; });
    if (f.zero == Zero::none && f.subnormals)
        refuse([&] { return "zero='none' needs subnormals=False: field 0 is a binade then"; });
    if (f.zero == Zero::none && f.is_signed)
        refuse([&] { return "zero='none' is defined for unsigned formats only"; });
    if (f.nan_at_negative_zero && (!f.is_signed || f.zero != Zero::single)) {
        refuse([&] { return "nan_at_negative_zero needs a signed format with zero='single'"; });
    }
    if (f.subnormals && (f.subnormal_exponent > 1 - f.bias || f.subnormal_exponent < -f.bias)) {
        refuse([&] {
            return "subnormal_exponent=" + std::to_string(f.subnormal_exponent) +
                   " must be 1 - bias = " + std::to_string(1 - f.bias) +
                   " or -bias = " + std::to_string(-f.bias);
        });
    }
    if (!f.subnormals && f.subnormal_exponent != 1 - f.bias) {
        refuse([&] {
            return "subnormal_exponent=" + std::to_string(f.subnormal_exponent) +
                   " has no meaning without subnormals; set it to 1 - bias = " +
                   std::to_string(1 - f.bias);
        });
    }
    if (f.even_code_ties && f.mantissa_bits != 0) {
        refuse([&] {
            return "even_code_ties applies only to precision 1; mantissa_bits is " +
                   std::to_string(f.mantissa_bits);
        });
    }
    // A format needs one finite value besides zero (or any finite value, if it has no zero).
    const std::uint64_t specials = f.nan_codes + (f.has_infinity ? 1 : 0);
    const std::uint64_t needed = f.zero == Zero::none ? 1 : 2;
    if (f.nan_codes >= f.magnitude_codes() || specials + needed > f.magnitude_codes()) {
        refuse([&] {
            return described(f) + " and " + std::to_string(specials) +
                   " special codes per sign has no finite value except zero";
        });
    }
    const int quantum = f.finest_exponent();
    const bool bounded = f.largest() <= std::numeric_limits<double>::max();
    if (quantum < -1074 || !bounded) {
        refuse([&] {
            const std::string top = bounded ? "2^" + std::to_string(f.emax()) : "beyond 2^1023";
            return described(f) + " has values from 2^" + std::to_string(quantum) + " to " + top +
                   ", which fp64 cannot store; its finite values must be fp64 values";
        });
    }
}

// Returns whether the table gives `name` to a format other than `f`. In the table, e2m1fn is OCP's
// format, without NaN, and e8m0 is OCP's scale format.
constexpr bool means_another(std::string_view name, const FloatFormat& f) {
    const std::optional<FloatFormat> known = format_in_table(name);
    return known && *known != f;
}

// Returns whether `name`, which is read as `f`, ends with the usual bias, as in e3m2fnb3, but is
// another format of the table without it: a reader may expect that one.
constexpr bool has_needless_bias(std::string_view name, const FloatFormat& f) {
    const std::size_t at = name.rfind('b');
    if (at == std::string_view::npos || name.find_first_not_of("0123456789", at + 1) != name.npos)
        return false;
    const std::string_view plain = name.substr(0, at);
    const std::optional<FloatFormat> without = read_general_name(plain);
    return without && *without == f && means_another(plain, f);
}

// The compiler names one of these functions where it refuses a name, because a call of them is not
// a constant expression.
[[noreturn]] inline void not_the_name_of_a_format() { std::abort(); }
[[noreturn]] inline void no_format_has_these_fields() { std::abort(); }
[[noreturn]] inline void another_format_has_this_name_without_its_bias() { std::abort(); }

// The format with a name that is known while the program is compiled.
constexpr FloatFormat constant_format(std::string_view name) {
    if (const std::optional<FloatFormat> known = format_in_table(name)) return *known;
    std::optional<FloatFormat> f = read_p3109_name(name);
    if (!f) f = read_general_name(name);
    if (!f) not_the_name_of_a_format();
    bool sound = f->exponent_bits <= 11 && f->mantissa_bits <= 52;
    if (sound) check_format(*f, [&](const auto&) { sound = false; });
    if (!sound) no_format_has_these_fields();
    if (has_needless_bias(name, *f)) another_format_has_this_name_without_its_bias();
    return *f;
}

}  // namespace apscope::detail
