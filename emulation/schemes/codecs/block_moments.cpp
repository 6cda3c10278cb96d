#include "emulation/schemes/codecs/block_moments.h"

#include <algorithm>
#include <cfloat>

#include "core/codec.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/cast/row_moments.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = 256;  // number of elements that are processed together

// Computes v = x / scale. For scales of the rule `ratio`, v is the fp32 product of x, rounded and
// clamped to +-FLT_MAX, and the factor `multiply`, clamped to +-largest.
struct ScaleElements {
    static APSCOPE_INLINE void run(const double* x, const double* scale, const float* multiply,
                                   std::size_t count, bool ratio, double largest, double* v) {
        if (!ratio) {
            for (std::size_t i = 0; i < count; ++i) v[i] = x[i] / scale[i];
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const auto single = static_cast<float>(x[i]);
            const float above = single < -FLT_MAX ? -FLT_MAX : single,
                        inside = above > FLT_MAX ? FLT_MAX : above;
            const double scaled = inside * multiply[i];
            const double low = scaled < -largest ? -largest : scaled;
            v[i] = low > largest ? largest : low;
        }
    }
};

// The input of DecodeMoments, which computes the moments of decoded elements. If an element is
// rounded at random to one of its neighbours `low` and `high`, its moments follow from these two;
// otherwise its variance is 0.
struct Neighbours {
    const double *x, *v, *scale, *low, *high, *bias, *variance;
};
struct DecodeMoments {
    static APSCOPE_INLINE void run(const Neighbours* given, std::size_t count, bool scales_tensor,
                                   float tensor_scale, double* bias, double* variance) {
        const Neighbours n = *given;
        const auto decoded = [&](double element, double scale) -> double {
            return scales_tensor
                       ? static_cast<double>(static_cast<float>(element * scale) / tensor_scale)
                       : element * scale;
        };
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double mean = n.v[i] + n.bias[i], p = (mean - n.low[i]) / (n.high[i] - n.low[i]);
            const double low = decoded(n.low[i], n.scale[i]),
                         gap = decoded(n.high[i], n.scale[i]) - low;
            const bool exact = n.variance[i] == 0.0;
            const double centre = decoded(mean, n.scale[i]), between = low + p * gap,
                         spread = p * (1.0 - p) * (gap * gap);
            bias[i] = (exact ? centre : between) - n.x[i];
            variance[i] = exact ? 0.0 : spread;
        }
    }
};

}  // namespace

void state_moments(Message& m, const BlockRow& row, std::span<const double> x,
                   const BlockFormat& format, const Projection& projection) {
    Projection inside = projection;
    inside.overflow = Overflow::saturate;  // elements above the largest value saturate
    const Cast<double> cast = make_cast<double>(format.element, inside);
    const RowCast down(format.element, {RoundingMode::toward_zero}),
        up(format.element, {RoundingMode::away_from_zero});
    const BasicCodec<double> scales = make_codec<double>(format.scale);
    const bool ratio = format.rule == ScaleRule::ratio;
    double scale[group], v[group], low[group], high[group], bias[group], variance[group];
    float multiply[group];
    m.bias.resize(x.size());
    m.variance.resize(x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += group) {
        const std::size_t count = std::min(group, x.size() - begin);
        for (std::size_t i = 0; i < count;) {
            const BlockLines::Run run = row.blocks.at(begin + i);
            const std::size_t end = std::min(run.end - begin, count);
            const double decoded = decode_one<double>(row.scales[run.index], scales);
            const float reciprocal = ratio ? element_multiplier(decoded, row.tensor_scale) : 0.0f;
            for (; i < end; ++i) {
                scale[i] = decoded;
                multiply[i] = reciprocal;
            }
        }
        double* values = v;
        simd::run<ScaleElements>(x.data() + begin, static_cast<const double*>(scale),
                                 static_cast<const float*>(multiply), count, ratio,
                                 format.element.largest(), values);
        std::fill(bias, bias + count, 0.0);
        std::fill(variance, variance + count, 0.0);
        add_moments<double>(v, count, 1.0, cast, bias, variance);
        down.round(v, 1.0, low, count, {}, 0);
        up.round(v, 1.0, high, count, {}, 0);
        const Neighbours neighbours{x.data() + begin, v, scale, low, high, bias, variance};
        simd::run<DecodeMoments>(&neighbours, count, format.tensor_scale, row.tensor_scale,
                                 m.bias.data() + begin, m.variance.data() + begin);
    }
}

}  // namespace apscope::detail
