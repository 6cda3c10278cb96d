// Matrix products with a rounding after every operation, one output per thread, in the orders of
// emulation/arithmetic/ordered_sum.h, element by element: every format, mode and order that
// matmul_tile.h does not serve. A term needs at least fifty instructions for its roundings, and two
// loads that neighbouring threads share. So the caches are fast enough, and no tile is stored in
// shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exact_arithmetic.h"
#include "core/philox.h"
#include "emulation/arithmetic/arithmetic_kernels.h"
#include "emulation/arithmetic/kahan.h"
#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// A rounding, for operations on fp32 numbers or on products of two fp32 numbers.
struct StepRounder {
    Cast<double> cast;
    double operand_floor;  // operands of smaller magnitude count as zeros
    bool wide;             // sums need more bits than an fp64 number rounded to odd has
};

// The size of the stack of pairwise sums, enough for 2^39 terms.
inline constexpr int pairwise_levels = 40;

// Computes one operation on wide numbers, which only stochastic roundings with many random bits
// need.
template <Operation Op>
APSCOPE_HD_CALL double operate_by_mode(double x, double y, double z, const Cast<double>& cast,
                                       std::uint64_t random) {
    double result = 0;
    dispatch(cast.rounding, [&]<RoundingMode M>() {
        if constexpr (is_stochastic(M) && M != RoundingMode::stochastic_exact)
            result = operate_wide<Op, M>(x, y, z, cast, random);
    });
    return result;
}

// One output of a matrix product. Nearest means that every rounding is ties_to_even, by a plain
// cast, and that operands are not flushed. Pairwise is the order that needs a stack, which would
// cost the other orders a thread's local memory.
template <bool Nearest, bool Pairwise>
struct MatmulStep {
    const float *a, *b;  // (batches, rows, terms) and (batches, terms, columns)
    float* out;
    std::uint64_t batches, rows, terms, columns;
    SumOrder::Kind order;
    std::uint64_t chunk;
    StepRounder sum, product, result;
    bool has_product, has_result;
    PhiloxKey key;
    int random_bits;

    APSCOPE_HD std::uint64_t count() const { return batches * rows * columns; }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        Output o{*this, a + i / columns * terms,
                 b + (i / columns / rows * terms * columns + i % columns), i, 0};
        double s = o.run();
        if (has_result) s = o.round(result, s, Stage::quantize, 0);
        out[i] = narrowed(s);
    }

private:
    // The sum of one output; `hop` counts its roundings.
    struct Output {
        const MatmulStep& step;
        const float *left, *right;
        std::uint64_t index;
        std::uint32_t hop;

        APSCOPE_HD std::uint64_t random(const StepRounder& r, Stage stage,
                                        std::uint32_t number) const {
            if (!is_stochastic(r.cast.rounding)) return 0;
            return RandomStream{step.key, 0, stage_and_hop(stage, number), step.random_bits}.at(
                index);
        }
        APSCOPE_HD double round(const StepRounder& r, double x, Stage stage,
                                std::uint32_t number) const {
            if constexpr (Nearest) {
                return round_to_format<RoundingMode::ties_to_even, double>(
                    x, assume_plain<true>(r.cast), std::uint64_t{0});
            } else {
                if (r.operand_floor != 0) x = flush_operand(x, r.operand_floor);
                return cast_only(r, x, stage, number);
            }
        }
        APSCOPE_HD double cast_only(const StepRounder& r, double x, Stage stage,
                                    std::uint32_t number) const {
            return round_by_mode<double>(x, r.cast, random(r, stage, number), RandomStream{}, 0);
        }
        // Returns round(x op y (op z)).
        template <Operation Op>
        APSCOPE_HD double apply(const StepRounder& r, double x, double y, double z, Stage stage,
                                std::uint32_t number) const {
            if constexpr (Nearest) {
                return round_to_format<RoundingMode::ties_to_even, double>(
                    to_odd<Op>(x, y, z, false), assume_plain<true>(r.cast), std::uint64_t{0});
            } else {
                if (r.operand_floor != 0) {
                    x = flush_operand(x, r.operand_floor);
                    y = flush_operand(y, r.operand_floor);
                    z = flush_operand(z, r.operand_floor);
                }
                if (Op == Operation::multiply || !r.wide) {
                    return cast_only(
                        r, to_odd<Op>(x, y, z, r.cast.rounding == RoundingMode::toward_negative),
                        stage, number);
                }
                return operate_by_mode<Op>(x, y, z, r.cast, random(r, stage, number));
            }
        }
        template <Operation Op>
        APSCOPE_HD double next(double x, double y, double z = 0.0) {
            return apply<Op>(step.sum, x, y, z, Stage::reduce, hop++);
        }

        APSCOPE_HD double a(std::uint64_t k) const { return left[k]; }
        APSCOPE_HD double b(std::uint64_t k) const { return right[k * step.columns]; }
        // If operands are flushed, exact products are added by fused multiply-adds: an addition
        // would flush the product instead of its factors.
        APSCOPE_HD bool fused() const {
            return !Nearest && !step.has_product && step.sum.operand_floor != 0;
        }
        APSCOPE_HD double term(std::uint64_t k) const {
            if (!step.has_product) return a(k) * b(k);
            return apply<Operation::multiply>(step.product, a(k), b(k), 0.0, Stage::wire,
                                              static_cast<std::uint32_t>(k));
        }
        APSCOPE_HD double begin(std::uint64_t k) {
            if (fused()) return next<Operation::multiply>(a(k), b(k));
            return round(step.sum, term(k), Stage::reduce, hop++);
        }
        APSCOPE_HD double add_term(double s, std::uint64_t k) {
            if (fused()) return next<Operation::fma>(a(k), b(k), s);
            return next<Operation::add>(s, term(k));
        }

        APSCOPE_HD double sequential(std::uint64_t first, std::uint64_t end) {
            double s = begin(first);
            for (std::uint64_t k = first + 1; k < end; ++k) s = add_term(s, k);
            return s;
        }
        APSCOPE_HD double chunked() {
            double s = 0.0;
            for (std::uint64_t first = 0; first < step.terms; first += step.chunk) {
                const double part = sequential(
                    first, step.terms - first < step.chunk ? step.terms : first + step.chunk);
                s = first == 0 ? part : next<Operation::add>(s, part);
            }
            return s;
        }
        // A stack has sums of 2^level terms, which are merged like the digits of a binary counter.
        APSCOPE_HD double pairwise() {
            double stack[pairwise_levels];
            int depth = 0;
            for (std::uint64_t k = 0; k < step.terms; ++k) {
                stack[depth++] = term(k);
                for (std::uint64_t done = k + 1; done % 2 == 0; done /= 2) {
                    --depth;
                    stack[depth - 1] = next<Operation::add>(stack[depth - 1], stack[depth]);
                }
            }
            for (; depth > 1; --depth)
                stack[depth - 2] = next<Operation::add>(stack[depth - 2], stack[depth - 1]);
            return step.terms == 1 ? round(step.sum, stack[0], Stage::reduce, hop++) : stack[0];
        }
        APSCOPE_HD double kahan() {
            double s = begin(0), lost = 0.0, y = 0.0, t = 0.0;
            for (std::uint64_t k = 1; k < step.terms; ++k) {
                kahan_add(fused() ? 0.0 : term(k), s, lost, y, t,
                          [&](double& out, double x, int sign, double z, int rounding) {
                              if (rounding == 0 && fused()) out = add_term(-z, k);
                              else
                                  out = sign < 0 ? next<Operation::subtract>(x, z)
                                                 : next<Operation::add>(x, z);
                          });
                s = t;
            }
            return s;
        }
        APSCOPE_HD double run() {
            if (step.terms == 0) return round(step.sum, 0.0, Stage::reduce, hop++);
            if constexpr (Pairwise) {
                return pairwise();
            } else {
                if (step.order == SumOrder::Kind::sequential) return sequential(0, step.terms);
                if (step.order == SumOrder::Kind::chunked) return chunked();
                return kahan();
            }
        }
    };
};

}  // namespace apscope::detail
