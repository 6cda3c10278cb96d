// Operations on fp32 arrays with every number in registers from its load to its store: the same
// bits as emulation/arithmetic/arithmetic.cpp's general path.
#pragma once

#include <cstddef>
#include <optional>

#include "core/exact_arithmetic.h"
#include "emulation/arithmetic/rounding_steps.h"

namespace apscope::detail {

// One operation and its rounding.
class RegisterOperation {
public:
    // None for stochastic rounding, flushed operands or results, and formats without a step.
    static std::optional<RegisterOperation> make(Operation operation, const FloatFormat& format,
                                                 const Projection& projection);

    // out[i] = round(a[i] op b[i] (op c[i])); arrays that the operation does not take may be any,
    // `out` one of the operands'.
    void run(const float* a, const float* b, const float* c, float* out, std::size_t count) const;
    // Whether fp32 operations are enough (for products if the factors are numbers of the format),
    // not only fp64's.
    bool narrow() const { return fp32_.has_value(); }

private:
    Operation operation_ = Operation::add;
    StepCast<double> fp64_;
    std::optional<StepCast<float>> fp32_;
};

}  // namespace apscope::detail
