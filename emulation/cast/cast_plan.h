// Chooses the path of a cast to a format, on the CPU and on a GPU, and states why it gives the same
// bits as the rounding rule (core/rounding.h). emulation/arithmetic/row_cast.h chooses the path for
// rows of fp64 numbers in arithmetic.
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
    split,     // fp32: normal numbers by one integer addition, subnormal ones as a count of quanta
               // (quantize_split.h)
    scaled,    // fp32, stochastic: one addition of two integers, digits and random bits
               // (stochastic_scaled.h)
    rule,      // deterministic: the rounding rule as vector code
    stochastic,  // the rule, with at most 64 random bits per element
    digits,      // the rule, with as many random digits per element as needed (stochastic_exact)
};
inline constexpr int cast_path_count = 6;
std::string_view to_string(CastPath path);

// A format and a projection, prepared for arrays of Real: the path and the data that its loops
// read. The data that only other paths read is not set.
template <class Real>
struct CastPlan {
    CastPath path = CastPath::rule;
    Cast<Real> cast{};
    AdditionCast<Real> addition{};
    SplitCast split{};  // for the paths split and scaled
    ScaledCast scaled{};
    // Stochastic modes: true if the random integers, of at most 32 bits, are drawn for a buffer of
    // elements at a time.
    bool words_in_bulk = false;

    std::string_view how() const;     // describes the loops of the path
    std::string_view reason() const;  // the reason why every result is the exact number, rounded
                                      // once
};

// Chooses the path and prepares its data. Host only; the projection must have been validated.
template <class Real>
CastPlan<Real> make_plan(const FloatFormat& format, const Projection& projection);

// A plan that applies the rule, even if another path is possible.
template <class Real>
CastPlan<Real> make_rule_plan(const FloatFormat& format, const Projection& projection);

// The map of code_kernels.h between fp32 values of a format and codes; nothing if the map does not
// support the format, for which callers use core/codec.h.
std::optional<CodeMap> make_code_plan(const FloatFormat& format, bool keep_payload = false);

}  // namespace apscope::detail
