// The path of a cast to a format, on the CPU and on a GPU, and why its bits are those of the rule
// (core/rounding.h). Only this file chooses.
#pragma once

#include <optional>
#include <string_view>

#include "core/rounding.h"
#include "emulation/cast/code_kernels.h"
#include "emulation/cast/quantize_addition.h"
#include "emulation/cast/stochastic_scaled.h"

namespace apscope::detail {

enum class CastPath {
    addition,  // deterministic: one hardware addition and one subtraction (quantize_addition.h)
    split,   // fp32: numbers of full precision by one integer addition, smaller ones as a count of
             // quanta (quantize_split.h)
    scaled,  // fp32, stochastic: the sum of two integers, of digits and random bits
             // (stochastic_scaled.h)
    rule,    // deterministic: the rule as vector code
    stochastic,  // the rule, with the random integers of one Philox block for several elements
    digits,      // the rule, with as many random digits per element as needed
};
inline constexpr int cast_path_count = 6;
std::string_view to_string(CastPath path);

// A format and a projection made ready for arrays of Real: the path, and what its loops read. The
// data of other paths is not set.
template <class Real>
struct CastPlan {
    CastPath path = CastPath::rule;
    Cast<Real> cast{};
    AdditionCast<Real> addition{};
    SplitCast split{};  // of split and scaled
    ScaledCast scaled{};
    // Stochastic: random integers of at most 32 bits come a buffer at a time.
    bool words_in_bulk = false;

    std::string_view how() const;     // what runs
    std::string_view reason() const;  // why its results are those of the exact result rounded once
};

// Host only; the projection must have been validated.
template <class Real>
CastPlan<Real> make_plan(const FloatFormat& format, const Projection& projection);

// The same by the rule, even if another path is possible.
template <class Real>
CastPlan<Real> make_rule_plan(const FloatFormat& format, const Projection& projection);

// Between fp32 values of a format and codes: the map of code_kernels.h, where it serves;
// core/codec.h serves elsewhere.
std::optional<CodeMap> make_code_plan(const FloatFormat& format, bool keep_payload = false);

}  // namespace apscope::detail
