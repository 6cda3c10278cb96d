#include "emulation/allreduce/fp32_sums.h"

#include <algorithm>
#include <cmath>

#include "core/named_formats.h"
#include "emulation/allreduce/additions.h"

namespace apscope::detail {

namespace {

int quantum_exponent(const FloatFormat& f) {
    return std::min(f.emin(), f.subnormals ? f.subnormal_exponent : f.emin()) - f.mantissa_bits;
}

// Returns whether fp32's addition already rounds as requested.
bool is_fp32_addition(const FloatFormat& accumulate, const Projection& p) {
    static const FloatFormat fp32 = parse_format("fp32");
    return accumulate == fp32 && p.rounding == RoundingMode::ties_to_even &&
           p.overflow == Overflow::ieee && p.underflow == Underflow::gradual && !p.keep_payload;
}

}  // namespace

std::optional<Fp32Sums> fp32_sums(const FloatFormat& sent, const FloatFormat& accumulate,
                                  const Projection& projection, int k, int workers) {
    const std::optional<FloatFormat> terms = scaled_format(sent, k);
    if (!terms || projection.rounding == RoundingMode::toward_negative ||
        projection.rounding == RoundingMode::stochastic_exact)
        return std::nullopt;
    if (projection.underflow != Underflow::gradual || projection.keep_payload) return std::nullopt;
    // Below this limit neither a sum nor any step of a compensated sum overflows fp32.
    constexpr double room = 0x1p126;
    if (is_fp32_addition(accumulate, projection)) {
        // Sums scaled by 2^-k round like unscaled sums if they stay within fp32's range.
        const double max_sum = 8.0 * workers * std::max(sent.largest(), terms->largest());
        if (k != 0 && max_sum > room) return std::nullopt;
        Fp32Sums sums;
        sums.in_hardware = true;
        return sums;
    }
    const std::optional<FloatFormat> grid = scaled_format(accumulate, k);
    if (!grid) return std::nullopt;
    const QuantizeJob<float> job = make_row_job(*grid, projection);
    const int finest = std::min(quantum_exponent(*terms), quantum_exponent(*grid));
    const bool exact = std::max(terms->emax(), grid->emax()) + 2 - finest <= 24;
    const bool nearest = is_nearest(projection.rounding);
    // An fp32 sum that overflows becomes an infinity. If same_overflow is true, the rounding of the
    // exact sum would also give that infinity.
    const bool same_overflow =
        nearest && job.plan.cast.overflow_positive == infinity_bits<float> &&
        job.plan.cast.overflow_negative == (infinity_bits<float> | sign_bit<float>) &&
        job.plan.cast.infinite_positive == job.plan.cast.overflow_positive &&
        job.plan.cast.infinite_negative == job.plan.cast.overflow_negative;
    if (std::max(terms->largest(), grid->largest()) > room && !same_overflow) return std::nullopt;
    Fp32Sums sums;
    sums.step = make_step<float>(*grid, projection);
    if (sums.step && sums.step->step == Step::none) sums.step = std::nullopt;
    sums.job = job;
    sums.zero_sign = job.plan.cast.negative_zero;
    sums.random_bits = projection.drawn_bits();
    sums.accumulator = make_cast<double>(accumulate, projection);
    sums.scale = std::ldexp(1.0, k);
    const bool innocuous =
        nearest && sums.job.plan.cast.gap_high == 0 && terms->precision() <= grid->precision() &&
        2 * grid->precision() + 2 <= 24 && quantum_exponent(*terms) >= quantum_exponent(*grid);
    if (!exact && !innocuous) return std::nullopt;
    return sums;
}

std::optional<Fp32Sums> fp32_sums(const Topology& topology, const FloatFormat& sent,
                                  const FloatFormat& accumulate, const Projection& projection,
                                  int k, int workers) {
    if (topology.is_plain()) return fp32_sums(sent, accumulate, projection, k, workers);
    const Additions by = additions_of(topology, accumulate, projection);
    // With channels, the chunks depend on the number of bytes of an element of the accumulator,
    // which fp32 sums do not preserve.
    if (by.exact || topology.channels.count > 0) return std::nullopt;
    std::optional<Fp32Sums> sums =
        fp32_sums(sent, by.narrow.format, by.narrow.projection, k, workers);
    if (!sums || !by.wide) return sums;
    if (!is_fp32_addition(by.wide->format, by.wide->projection)) return std::nullopt;
    for (const FloatFormat& terms : {sent, by.narrow.format})
        if (!fp32_sums(terms, by.wide->format, by.wide->projection, k, workers))
            return std::nullopt;
    sums->ends_wide = by.ends_wide;
    if (by.ends_wide) sums->zero_sign = sign_bit<float>;
    return sums;
}

}  // namespace apscope::detail
