#include "emulation/arithmetic/register_arithmetic.h"

#include <cstdint>

#include "emulation/arithmetic/value_range.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

using StepOf64 = const StepCast<double>*;
using StepOf32 = const StepCast<float>*;

// odd_quotient() and odd_root() compute divide_to_odd() and sqrt_to_odd() of
// core/exact_arithmetic.h, with the same remainders, but without branches.
APSCOPE_HD double odd_quotient(double a, double b) {
    const double q = a / b, high = high_part(q, 24);
    return moved_to_odd(q, (a - high * b) - (q - high) * b, a);
}
APSCOPE_HD double odd_root(double x) {
    const double r = __builtin_sqrt(x), high = high_part(r, 27), low = r - high;
    return moved_to_odd(r, ((x - high * high) - 2 * high * low) - low * low, r);
}

// Computes the exact result, or the result rounded to odd, in fp64, and rounds it to the format.
template <Operation Op, Step S>
struct OperateInFp64 {
    static APSCOPE_INLINE void run(const float* a, const float* b, const float* c, float* out,
                                   std::size_t count, StepOf64 given) {
        const StepCast<double> step = *given;
#pragma GCC ivdep  // out is a separate array, or an operand
        for (std::size_t i = 0; i < count; ++i) {
            const double x = a[i];
            double result;
            if constexpr (Op == Operation::add)
                result = add_for_step<true, S>(x, static_cast<double>(b[i]), step);
            if constexpr (Op == Operation::subtract)
                result = add_for_step<true, S>(x, -static_cast<double>(b[i]), step);
            if constexpr (Op == Operation::multiply) result = x * b[i];
            if constexpr (Op == Operation::divide) result = odd_quotient(x, b[i]);
            if constexpr (Op == Operation::sqrt) result = odd_root(x);
            if constexpr (Op == Operation::fma)
                result = add_for_step<true, S>(x * b[i], static_cast<double>(c[i]), step);
            out[i] = static_cast<float>(
                canonicalize_nan_and_zero(round_step<S>(result, step), step.zero_sign));
        }
    }
};

// Computes in fp32, then rounds to the format: sums of any operands, which are first rounded to
// odd, and products for which the two roundings equal one rounding.
template <Operation Op, Step S>
struct OperateInFp32 {
    static APSCOPE_INLINE void run(const float* a, const float* b, float* out, std::size_t count,
                                   StepOf32 given) {
        const StepCast<float> step = *given;
#pragma GCC ivdep
        for (std::size_t i = 0; i < count; ++i) {
            float result;
            if constexpr (Op == Operation::add)
                result = add_for_step<S != Step::none, S>(a[i], b[i], step);
            if constexpr (Op == Operation::subtract)
                result = add_for_step<S != Step::none, S>(a[i], -b[i], step);
            if constexpr (Op == Operation::multiply) result = a[i] * b[i];
            out[i] = canonicalize_nan_and_zero(round_step<S>(result, step), step.zero_sign);
        }
    }
};

// Sets `off` to 0 if all numbers are values of the format or would be without its upper limit, else
// to a nonzero number. For a NaN or a huge number, `off` may be nonzero too.
template <Step S>
struct FindOffGrid {
    static APSCOPE_INLINE void run(const float* x, std::size_t count, StepOf32 given,
                                   std::uint32_t* off) {
        const StepCast<float> step = *given;
        std::uint32_t found = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(x[i]) & ~sign_bit<float>;
            if constexpr (S == Step::bits) {
                found |= magnitude & step.rest;
            } else {
                const float c =
                    bits_cast<float>(grid_c(magnitude & infinity_bits<float>, step.grid));
                found |= bits_cast<std::uint32_t>(to_grid(bits_cast<float>(magnitude), c).even) ^
                         magnitude;
            }
        }
        *off = found;
    }
};

template <Step S>
bool on_grid(const float* x, std::size_t count, StepOf32 step) {
    std::uint32_t off = 0;
    simd::run<FindOffGrid<S>>(x, count, step, &off);
    return off == 0;
}

template <Operation Op>
void run_fp64(const float* a, const float* b, const float* c, float* out, std::size_t count,
              StepOf64 step) {
    switch (step->step) {
        case Step::threshold:
            return simd::run<OperateInFp64<Op, Step::threshold>>(a, b, c, out, count, step);
        case Step::odd: return simd::run<OperateInFp64<Op, Step::odd>>(a, b, c, out, count, step);
        default: return simd::run<OperateInFp64<Op, Step::addition>>(a, b, c, out, count, step);
    }
}

// Runs OperateInFp32 on arrays. Returns false, and computes nothing, if a factor of a product is
// not a number of the format.
template <Operation Op>
bool run_fp32(const float* a, const float* b, float* out, std::size_t count, StepOf32 step) {
    const auto run_checked = [&]<Step S>() {
        if (Op == Operation::multiply &&
            (!on_grid<S>(a, count, step) || !on_grid<S>(b, count, step)))
            return false;
        simd::run<OperateInFp32<Op, S>>(a, b, out, count, step);
        return true;
    };
    switch (step->step) {
        case Step::addition: return run_checked.template operator()<Step::addition>();
        case Step::bits: return run_checked.template operator()<Step::bits>();
        default: simd::run<OperateInFp32<Op, Step::none>>(a, b, out, count, step); return true;
    }
}

// Returns whether OperateInFp32 and the rounding after it equal one rounding of the exact result.
// The factors of a product must be numbers of the format.
bool runs_in_fp32(Operation operation, const FloatFormat& f, const StepCast<float>& step) {
    const ValueRange values = range_of(f);
    switch (operation) {
        case Operation::add:
        case Operation::subtract:
            return step.step == Step::none || sum_to_odd_rounds_safely(fp32_hardware, values);
        case Operation::multiply:
            return step.step == Step::none ||
                   product_rounds_twice_safely(fp32_hardware, values, values, values.quantum);
        default: return false;
    }
}

}  // namespace

std::optional<RegisterOperation> RegisterOperation::make(Operation operation,
                                                         const FloatFormat& format,
                                                         const Projection& projection) {
    const auto fp64 = make_step<double>(format, projection);
    if (!fp64) return {};
    RegisterOperation made;
    made.operation_ = operation;
    made.fp64_ = *fp64;
    const auto fp32 = make_step<float>(format, projection);
    if (fp32 && runs_in_fp32(operation, format, *fp32)) made.fp32_ = fp32;
    return made;
}

void RegisterOperation::run(const float* a, const float* b, const float* c, float* out,
                            std::size_t count) const {
    if (fp32_) {
        const bool done = operation_ == Operation::add
                              ? run_fp32<Operation::add>(a, b, out, count, &*fp32_)
                          : operation_ == Operation::subtract
                              ? run_fp32<Operation::subtract>(a, b, out, count, &*fp32_)
                              : run_fp32<Operation::multiply>(a, b, out, count, &*fp32_);
        if (done) return;
    }
    switch (operation_) {
        case Operation::add: return run_fp64<Operation::add>(a, b, c, out, count, &fp64_);
        case Operation::subtract: return run_fp64<Operation::subtract>(a, b, c, out, count, &fp64_);
        case Operation::multiply: return run_fp64<Operation::multiply>(a, b, c, out, count, &fp64_);
        case Operation::divide: return run_fp64<Operation::divide>(a, b, c, out, count, &fp64_);
        case Operation::sqrt: return run_fp64<Operation::sqrt>(a, b, c, out, count, &fp64_);
        case Operation::fma: return run_fp64<Operation::fma>(a, b, c, out, count, &fp64_);
    }
}

}  // namespace apscope::detail
