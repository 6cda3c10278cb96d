#include "core/float_format.h"

#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "core/named_formats.h"

namespace apscope {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw error(sentence); }

std::string describe(const FloatFormat& f) {
    return "a format with exponent_bits=" + std::to_string(f.exponent_bits) +
           ", mantissa_bits=" + std::to_string(f.mantissa_bits) +
           ", bias=" + std::to_string(f.bias);
}

}  // namespace

std::size_t FloatFormat::hash() const {
    std::uint64_t h = 1469598103934665603ull;
    for (std::uint64_t field :
         {static_cast<std::uint64_t>(exponent_bits), static_cast<std::uint64_t>(mantissa_bits),
          static_cast<std::uint64_t>(bias), static_cast<std::uint64_t>(is_signed),
          static_cast<std::uint64_t>(subnormals), static_cast<std::uint64_t>(subnormal_exponent),
          static_cast<std::uint64_t>(zero), nan_codes, static_cast<std::uint64_t>(has_infinity),
          static_cast<std::uint64_t>(nan_at_negative_zero),
          static_cast<std::uint64_t>(even_code_ties)}) {
        h = (h ^ field) * 1099511628211ull;
    }
    return static_cast<std::size_t>(h);
}

namespace detail {

void refuse_format(const FloatFormat& f, std::string_view what) {
    refuse("the format " + f.name() + " has no " + std::string(what));
}

void refuse_bias(int bias) {
    refuse("bias=" + std::to_string(bias) +
           " puts every value outside fp64's range; use -2200 to 2200");
}

void refuse_p3109(int storage_bits, int precision, bool is_signed) {
    const int widest = is_signed ? storage_bits - 1 : storage_bits;
    if (storage_bits < 3 || precision < 1 || precision > widest) {
        refuse("P3109 has no format of " + std::to_string(storage_bits) + " bits with precision " +
               std::to_string(precision) + "; precision runs from 1 to " + std::to_string(widest) +
               " and storage from 3 bits");
    }
    refuse("P3109's format of " + std::to_string(storage_bits) + " bits with precision " +
           std::to_string(precision) + " has " + std::to_string(widest - (precision - 1)) +
           " exponent bits, and values that fp64 cannot store; use at most 11");
}

}  // namespace detail

Specials parse_specials(std::string_view name) {
    if (name == "ieee") return Specials::ieee;
    if (name == "fn") return Specials::fn;
    if (name == "fnuz") return Specials::fnuz;
    if (name == "finite") return Specials::finite;
    if (name == "e8m0") return Specials::e8m0;
    if (name == "p3109") return Specials::p3109_extended;
    if (name == "p3109_finite") return Specials::p3109_finite;
    refuse("unknown specials '" + detail::limits::clipped(name) + "'; use one of " +
           std::string(specials_names()));
}

std::string_view specials_names() { return "ieee, fn, fnuz, finite, e8m0, p3109, p3109_finite"; }

void validate(const FloatFormat& f) {
    if (f.exponent_bits < 0 || f.exponent_bits > 11) {
        refuse("exponent_bits=" + std::to_string(f.exponent_bits) + " is not between 0 and 11");
    }
    if (f.mantissa_bits < 0 || f.mantissa_bits > 52) {
        refuse("mantissa_bits=" + std::to_string(f.mantissa_bits) + " is not between 0 and 52");
    }
    if (f.exponent_bits + f.mantissa_bits < 1)
        refuse("a format needs at least one exponent or mantissa bit");
    if (f.exponent_bits == 0 && !f.subnormals) {
        refuse("exponent_bits=0 without subnormals leaves one binade and no exponent field; set "
               "subnormals");
    }
    if (!detail::is_bias(f.bias)) detail::refuse_bias(f.bias);
    if (f.zero == Zero::both_signs && !f.is_signed)
        refuse("an unsigned format has no -0; use zero='single' or 'none'");
    if (f.zero == Zero::none && f.subnormals)
        refuse("zero='none' needs subnormals=False: field 0 is a binade then");
    if (f.zero == Zero::none && f.is_signed)
        refuse("zero='none' is defined for unsigned formats only");
    if (f.nan_at_negative_zero && (!f.is_signed || f.zero != Zero::single)) {
        refuse("nan_at_negative_zero needs a signed format with zero='single'");
    }
    if (f.subnormals && (f.subnormal_exponent > 1 - f.bias || f.subnormal_exponent < -f.bias)) {
        refuse("subnormal_exponent=" + std::to_string(f.subnormal_exponent) +
               " must be 1 - bias = " + std::to_string(1 - f.bias) +
               " or -bias = " + std::to_string(-f.bias));
    }
    if (!f.subnormals && f.subnormal_exponent != 1 - f.bias) {
        refuse("subnormal_exponent=" + std::to_string(f.subnormal_exponent) +
               " has no meaning without subnormals; set it to 1 - bias = " +
               std::to_string(1 - f.bias));
    }
    if (f.even_code_ties && f.mantissa_bits != 0) {
        refuse("even_code_ties applies only to precision 1; mantissa_bits is " +
               std::to_string(f.mantissa_bits));
    }
    // A format needs one finite value besides zero (or any finite value, if it has no zero).
    const std::uint64_t specials = f.nan_codes + (f.has_infinity ? 1 : 0);
    const std::uint64_t needed = f.zero == Zero::none ? 1 : 2;
    if (f.nan_codes >= f.magnitude_codes() || specials + needed > f.magnitude_codes()) {
        refuse(describe(f) + " and " + std::to_string(specials) +
               " special codes per sign has no finite value except zero");
    }
    const int quantum = f.finest_exponent();
    if (quantum < -1074 || !std::isfinite(f.largest())) {
        const std::string top =
            std::isfinite(f.largest()) ? "2^" + std::to_string(f.emax()) : "beyond 2^1023";
        refuse(describe(f) + " has values from 2^" + std::to_string(quantum) + " to " + top +
               ", which fp64 cannot store; its finite values must be fp64 values");
    }
}

void require_fp32(const FloatFormat& f, std::string_view what) {
    if (f.fits_fp32()) return;
    throw error(f.name() + " has values that fp32 does not have, and " + std::string(what) +
                    " works on fp32 numbers; use a format such as fp32",
                ErrorKind::unsupported);
}

}  // namespace apscope
