#include "emulation/arithmetic/row_cast.h"

#include <algorithm>
#include <cmath>

#include "core/exact_sum.h"
#include "emulation/cast/row_rule.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

template <Step S, class Real>
struct RoundSteps {
    static APSCOPE_INLINE void run(const Real* in, double scale, double* out, std::size_t count,
                                   const StepCast<double>* given) {
        const StepCast<double> step = *given;
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i)
            out[i] = canonicalize_nan_and_zero(round_step<S>(in[i] * scale, step), step.zero_sign);
    }
};
template <Step S>
struct AddSteps {
    static APSCOPE_INLINE void run(const double* a, const double* b, double sign, double* out,
                                   std::size_t count, const StepCast<double>* given) {
        const StepCast<double> step = *given;
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = canonicalize_nan_and_zero(
                round_step<S>(add_for_step<true, S>(a[i], sign * b[i], step), step),
                step.zero_sign);
        }
    }
};
template <class F>
void with_step(Step step, F&& f) {
    switch (step) {
        case Step::addition: return f.template operator()<Step::addition>();
        case Step::odd: return f.template operator()<Step::odd>();
        default: return f.template operator()<Step::threshold>();
    }
}

template <class Real>
struct RoundDrawn {
    static APSCOPE_INLINE void run(const Real* in, double scale, double* out, std::size_t count,
                                   const double* words, const DrawnStep* given) {
        using Bits = std::uint64_t;
        const DrawnStep d = *given;
        const StepCast<double> s = d.step;
        const double largest = bits_cast<double>(s.largest),
                     infinity = bits_cast<double>(infinity_bits<double>);
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) {
            const Bits bits = bits_cast<Bits>(in[i] * scale), sign = bits & sign_bit<double>,
                       magnitude = bits ^ sign, none = 0;
            const double value = bits_cast<double>(magnitude);
            const Bits c = grid_c(magnitude & infinity_bits<double>, s.grid),
                       quantum = c - c_above_quantum<double>;
            const double even = to_grid(value, bits_cast<double>(c)).even;
            const Bits excess = value < even ? quantum : none;
            const double below = even - bits_cast<double>(excess);
            const Bits more =
                value - below >= (d.draws - words[i]) * (d.per_draw * bits_cast<double>(quantum))
                    ? quantum
                    : none;
            const double rounded = below + bits_cast<double>(more);
            const Bits overflow = select(sign != 0, s.overflow_negative, s.overflow_positive);
            const Bits infinite = select(sign != 0, s.infinite_negative, s.infinite_positive);
            Bits result = rounded > largest ? overflow : bits_cast<Bits>(rounded);
            result = value == infinity ? infinite : result;
            out[i] = canonicalize_nan_and_zero(bits_cast<double>(result | sign), s.zero_sign);
        }
    }
};

// Down means that an exact zero is -0 if it is the sum of operands of different signs.
template <bool Down>
struct SumToOdd {
    static APSCOPE_INLINE void run(const double* a, const double* b, double sign, double* out,
                                   std::size_t count) {
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) out[i] = sum_to_odd(a[i], sign * b[i], Down);
    }
};

template <class Real>
struct Scale {
    static APSCOPE_INLINE void run(const Real* in, double scale, double* out, std::size_t count) {
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) out[i] = in[i] * scale;
    }
};

// Calls work(begin, n) for one group of elements after another; a group stays in the first-level
// cache.
template <class Work>
void for_groups(std::size_t count, Work&& work) {
    for (std::size_t begin = 0; begin < count; begin += random_group)
        work(begin, std::min(random_group, count - begin));
}

std::optional<DrawnStep> make_drawn(const FloatFormat& format, Projection projection,
                                    const Cast<double>& cast) {
    constexpr int least_exponent = 1 - Layout<double>::bias;
    if (projection.rounding != RoundingMode::stochastic || cast.random_bits > 53) return {};
    if (cast.emin - cast.mantissa_bits - cast.random_bits < least_exponent) return {};
    projection.rounding = RoundingMode::toward_zero;  // the grid does not depend on the mode; the
                                                      // results of overflows are set below
    std::optional<StepCast<double>> step = make_step<double>(format, projection);
    if (!step) return {};
    const auto magnitude = [](std::uint64_t bits) { return bits & ~sign_bit<double>; };
    step->overflow_positive = magnitude(cast.overflow_positive);
    step->overflow_negative = magnitude(cast.overflow_negative);
    step->infinite_positive = magnitude(cast.infinite_positive);
    step->infinite_negative = magnitude(cast.infinite_negative);
    return DrawnStep{*step, std::ldexp(1.0, cast.random_bits), std::ldexp(1.0, -cast.random_bits)};
}

}  // namespace

RowCast::RowCast(const FloatFormat& format, const Projection& projection)
    : format_(format), projection_(projection), cast_(make_cast<double>(format, projection)),
      step_(make_step<double>(format, projection)), drawn_(make_drawn(format, projection, cast_)) {}

template <class Real>
void RowCast::round_scaled(const Real* in, double scale, double* out, std::size_t count,
                           const RandomStream& stream, std::uint64_t first) const {
    if (step_)
        return with_step(step_->step, [&]<Step S>() {
            simd::run<RoundSteps<S, Real>>(in, scale, out, count, &*step_);
        });
    if (drawn_) {
        return for_drawn<double>(
            stream, first, count, [&](std::size_t begin, std::size_t n, const double* words) {
                simd::run<RoundDrawn<Real>>(in + begin, scale, out + begin, n, words, &*drawn_);
            });
    }
    for_groups(count, [&](std::size_t begin, std::size_t n) {
        simd::run<Scale<Real>>(in + begin, scale, out + begin, n);
        draw_and_round(out + begin, n, cast_, stream, first + begin);
    });
}

void RowCast::round(const float* in, double scale, double* out, std::size_t count,
                    const RandomStream& stream, std::uint64_t first) const {
    round_scaled(in, scale, out, count, stream, first);
}
void RowCast::round(const double* in, double scale, double* out, std::size_t count,
                    const RandomStream& stream, std::uint64_t first) const {
    round_scaled(in, scale, out, count, stream, first);
}

void RowCast::add(const double* a, const double* b, double sign, double* out, std::size_t count,
                  const RandomStream& stream, std::uint64_t first) const {
    if (step_)
        return with_step(step_->step, [&]<Step S>() {
            simd::run<AddSteps<S>>(a, b, sign, out, count, &*step_);
        });
    if (drawn_ && odd_suffices(cast_)) {
        double odd[random_group];
        return for_drawn<double>(
            stream, first, count, [&](std::size_t begin, std::size_t n, const double* words) {
                sums_to_odd(a + begin, b + begin, sign, odd, n);
                simd::run<RoundDrawn<double>>(static_cast<const double*>(odd), 1.0, out + begin, n,
                                              words, &*drawn_);
            });
    }
    if (is_stochastic(cast_.rounding) && !odd_suffices(cast_)) {
        return for_drawn<std::uint64_t>(
            stream, first, count,
            [&](std::size_t begin, std::size_t n, const std::uint64_t* words) {
                dispatch(cast_.rounding, [&]<RoundingMode M>() {
                    if constexpr (is_stochastic(M)) {
                        for (std::size_t i = begin; i < begin + n; ++i)
                            out[i] = add_rounded<M>(a[i], sign * b[i], cast_, words[i - begin]);
                    }
                });
            });
    }
    for_groups(count, [&](std::size_t begin, std::size_t n) {
        cast_.rounding == RoundingMode::toward_negative
            ? simd::run<SumToOdd<true>>(a + begin, b + begin, sign, out + begin, n)
            : simd::run<SumToOdd<false>>(a + begin, b + begin, sign, out + begin, n);
        draw_and_round(out + begin, n, cast_, stream, first + begin);
    });
}

void draw_and_round(double* row, std::size_t count, const Cast<double>& cast,
                    const RandomStream& stream, std::uint64_t first) {
    for_random_words(is_stochastic(cast.rounding), stream, first, count,
                     [&](std::size_t begin, std::size_t n, const std::uint64_t* words) {
                         round_by_rule(row + begin, row + begin, n, cast, words);
                     });
}

void sums_to_odd(const double* a, const double* b, double sign, double* out, std::size_t count) {
    simd::run<SumToOdd<false>>(a, b, sign, out, count);
}

}  // namespace apscope::detail
