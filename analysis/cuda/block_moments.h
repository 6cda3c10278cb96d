// The moments of rounding elements of blocks in a GPU thread, as emulation/schemes/codecs/
// block_moments.h computes them.
#pragma once

#include <cfloat>

#include "analysis/cuda/error_lane.h"
#include "emulation/cuda/blocks/block_step.h"

namespace apscope::detail {

struct BlockMoments {
    BlockRounding rounding;
    Cast<double> down, up;  // to the elements towards and away from zero

    // Of rounding x, which the format rounds as the fp32 number `narrow`, and which became y.
    APSCOPE_HD RoundingMoments of(double x, float narrow, double y, float block_scale,
                                  const TensorScale& tensor) const {
        if (!is_stochastic(rounding.element.rounding)) return {y - x, 0.0, true};
        if (!ErrorLane::finite(x) || !ErrorLane::finite(y)) return {0.0, 0.0, true};
        const auto decoded = [&](double element) -> double {
            const double product = element * widened(block_scale);
            return rounding.scaling.tensor_scale ? widened(narrowed(product) / tensor.value)
                                                 : product;
        };
        const double v = scaled(narrow, block_scale, tensor);
        const RoundingMoments m = moments_by_mode(v, rounding.element);
        const double mean = v + m.bias;
        if (m.variance == 0.0) return {decoded(mean) - x, 0.0, true};
        double low, high;
        if (quanta_serve(rounding.element)) {
            const SignedQuanta number(v, rounding.element);
            low = number.with_sign(number.q.k * number.q.quantum);
            high = number.with_sign((number.q.k + 1.0) * number.q.quantum);
        } else {
            low = round_by_mode<double>(v, down, 0, rounding.stream, 0);
            high = round_by_mode<double>(v, up, 0, rounding.stream, 0);
        }
        const double p = (mean - low) / (high - low), first = decoded(low),
                     gap = decoded(high) - first;
        return {first + p * gap - x, p * (1.0 - p) * (gap * gap), true};
    }

    // Of the rule ratio: the factor of an element before it is rounded.
    APSCOPE_HD static float factor_of(float block_scale, const TensorScale& tensor) {
        const float factor = 1.0f / (block_scale * tensor.inverse);
        return FLT_MAX < factor ? FLT_MAX : factor;
    }

private:
    // x in units of its block's scale.
    APSCOPE_HD double scaled(float x, float block_scale, const TensorScale& tensor) const {
        if (rounding.scaling.rule != ScaleRule::ratio) return widened(x) / widened(block_scale);
        const float product = x * factor_of(block_scale, tensor);
        const double largest = rounding.scaling.largest, wide = widened(product);
        const double low = wide < -largest ? -largest : wide;
        return low > largest ? largest : low;
    }
};

}  // namespace apscope::detail
