#include "core/float_format.h"

#include "core/error.h"
#include "core/format_rules.h"
#include "core/limits.h"
#include "core/named_formats.h"

namespace apscope {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw error(sentence); }

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
    const long widest = is_signed ? storage_bits - 1L : storage_bits;
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
    detail::check_format(f, [](const auto& sentence) { refuse(sentence()); });
}

void require_fp32(const FloatFormat& f, std::string_view what) {
    if (f.fits_fp32()) return;
    throw error(f.name() + " has values that fp32 does not have, and " + std::string(what) +
                    " works on fp32 numbers; use a format such as fp32",
                ErrorKind::unsupported);
}

}  // namespace apscope
