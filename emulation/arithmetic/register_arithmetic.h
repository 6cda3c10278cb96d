// Operations on fp32 arrays that compute and round every number in registers, without intermediate
// rows. The results have the same bits as in the general path in
// emulation/arithmetic/arithmetic.cpp.
#pragma once

#include <cstddef>
#include <optional>

#include "core/exact_arithmetic.h"
#include "emulation/arithmetic/rounding_steps.h"

namespace apscope::detail {

// One operation and its rounding.
class RegisterOperation {
public:
    // Returns nothing for stochastic rounding, for flushed operands or results, and for formats to
    // which make_step() has no step.
    static std::optional<RegisterOperation> make(Operation operation, const FloatFormat& format,
                                                 const Projection& projection);

    // Sets out[i] = round(a[i] op b[i] (op c[i])). Arrays that the operation does not take are
    // ignored; `out` may be one of the operands.
    void run(const float* a, const float* b, const float* c, float* out, std::size_t count) const;
    // True if run() can use fp32 operations instead of fp64 ones; for products, only if the factors
    // are numbers of the format.
    bool narrow() const { return fp32_.has_value(); }

private:
    Operation operation_ = Operation::add;
    StepCast<double> fp64_;
    std::optional<StepCast<float>> fp32_;
};

}  // namespace apscope::detail
