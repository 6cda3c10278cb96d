#include "emulation/cast/cast_plan.h"

#include <array>
#include <type_traits>

namespace apscope::detail {

namespace {

struct PathText {
    std::string_view name, how, reason;
};
constexpr std::array<PathText, cast_path_count> texts = {{
    {"addition",
     "one addition and subtraction of 1.5 2^(max(exponent, emin) + f - m), f = 23 in fp32 and 52 "
     "in fp64, as vector code",
     "the sum's last place is the format's quantum, so the hardware's ties to even are the "
     "format's, and the other roundings take one "
     "quantum more or less where the difference, which is exact (Sterbenz), says so; a number "
     "beyond the largest is seen before its result is kept"},
    {"split",
     "from 2^emin on one integer addition to the bits, smaller numbers as a whole number of quanta "
     "and a fraction, as vector code",
     "above 2^emin what is discarded are the low bits, below it the quotient by the quantum, a "
     "power of two, is exact in fp32, and so are "
     "its whole part and its fraction; both decide as the rule does"},
    {"scaled",
     "the number as an integer, its kept bits before 16 or 32 digits of the rest, plus the random "
     "integer, as vector code",
     "the scale is a power of two, so the digits are exact; their sum with the random integer "
     "carries into the kept bits where the rule's does"},
    {"rule", "the rule on the bits of every element, as vector code",
     "it is the rule: kept and discarded bits of the significand, one decision, one addition in "
     "place"},
    {"stochastic",
     "the rule with a random integer an element, several from one Philox4x32-10 block",
     "it is the rule: the discarded fraction, cut or rounded to N bits, plus the random integer, "
     "carries or does not"},
    {"digits",
     "the rule with random digits compared 64 at a time until they differ from the fraction's",
     "U < eta holds with probability eta for a real U uniform in [0, 1), of which only the digits "
     "that decide are drawn"},
}};

constexpr const PathText& text_of(CastPath path) { return texts[static_cast<std::size_t>(path)]; }

template <class Real>
CastPath slow_path(RoundingMode mode) {
    if (mode == RoundingMode::stochastic_exact) return CastPath::digits;
    return is_stochastic(mode) ? CastPath::stochastic : CastPath::rule;
}

// True for plain casts to signed formats with a zero and even spacing. Their emin must be fp32's,
// or their quantum at most 1 (so that v of quantize_split.h is a normal number) and at least 2^-93
// (so that fp32's subnormal numbers are less than 2^-33 quanta). At precision 1, the mode must not
// use the parity of a code.
bool split_serves(const FloatFormat& f, const Cast<float>& cast) {
    const RoundingMode mode = cast.rounding;
    if (is_stochastic(mode) && !digits_serve(mode, cast.random_bits, 32)) return false;
    const int quantum = cast.emin - f.mantissa_bits;
    return is_plain(cast) && f.is_signed && f.zero != Zero::none && f.mantissa_bits <= 22 &&
           (f.mantissa_bits > 0 || !asks_parity(mode)) &&
           (cast.emin == -126 || (quantum >= -93 && quantum <= 0));
}

// True for casts that split_serves() accepts if T of stochastic_scaled.h fits an int, all powers of
// two are normal fp32 numbers, and fp32's subnormal numbers have no digit in T, so that the
// smallest normal number can replace them.
bool scaled_serves(const SplitCast& s) {
    const int digits = digits_serve(s.cast.rounding, s.cast.random_bits, 16) ? 16 : 32;
    return is_stochastic(s.cast.rounding) && s.first_normal != 0 && s.cast.mantissa_bits <= 14 &&
           s.cast.emin - digits - s.cast.mantissa_bits > -126 && top_exponent(s.cast) <= 126;
}

}  // namespace

std::string_view to_string(CastPath path) { return text_of(path).name; }

template <class Real>
std::string_view CastPlan<Real>::how() const {
    return text_of(path).how;
}
template <class Real>
std::string_view CastPlan<Real>::reason() const {
    return text_of(path).reason;
}

template <class Real>
CastPlan<Real> make_rule_plan(const FloatFormat& format, const Projection& projection) {
    CastPlan<Real> plan;
    plan.cast = make_cast<Real>(format, projection);
    plan.path = slow_path<Real>(projection.rounding);
    plan.words_in_bulk = std::is_same_v<Real, float> && is_stochastic(projection.rounding) &&
                         digits_serve(projection.rounding, projection.random_bits, 32) &&
                         is_plain(plan.cast);
    return plan;
}

template <class Real>
CastPlan<Real> make_plan(const FloatFormat& format, const Projection& projection) {
    CastPlan<Real> plan = make_rule_plan<Real>(format, projection);
    if (plan.path == CastPath::rule && is_plain(plan.cast) && grid_serves(format, plan.cast)) {
        plan.path = CastPath::addition;
        plan.addition = make_addition_cast(plan.cast);
        return plan;
    }
    if constexpr (std::is_same_v<Real, float>) {
        if (!split_serves(format, plan.cast)) return plan;
        plan.path = CastPath::split;
        plan.split = make_split_cast(plan.cast);
        if (!scaled_serves(plan.split)) return plan;
        plan.path = CastPath::scaled;
        plan.scaled = make_scaled_cast(plan.split);
    }
    return plan;
}

// The map supports formats with subnormal numbers whose exponent range is inside fp32's range or
// has the same lower end.
std::optional<CodeMap> make_code_plan(const FloatFormat& f, bool keep_payload) {
    const bool shared_end = f.bias == 127 && f.subnormal_exponent == -126;
    const int quantum = f.subnormal_exponent - f.mantissa_bits;
    const bool serves =
        !keep_payload && f.subnormals && f.subnormal_exponent == 1 - f.bias &&
        f.zero != Zero::none && f.mantissa_bits <= 22 && f.fits_fp32() &&
        (shared_end || (quantum >= -126 && f.subnormal_exponent > -126 && quantum <= 0));
    return serves ? std::optional(make_code_map(f)) : std::nullopt;
}

template struct CastPlan<float>;
template struct CastPlan<double>;
template CastPlan<float> make_plan<float>(const FloatFormat&, const Projection&);
template CastPlan<double> make_plan<double>(const FloatFormat&, const Projection&);
template CastPlan<float> make_rule_plan<float>(const FloatFormat&, const Projection&);
template CastPlan<double> make_rule_plan<double>(const FloatFormat&, const Projection&);

}  // namespace apscope::detail
