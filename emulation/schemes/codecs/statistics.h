// Statistics of a row, from which schemes choose parameters. The order of additions is fixed
// (core/fixed_shape_sum.h), so sums depend only on the values.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Computes the block_sum() of term(x), in vector code.
template <class Term>
struct SumTerms {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, const Term* term,
                                   double* sum) {
        const Term of = *term;
        double lane[sum_lanes] = {};
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t j = 0; j < sum_lanes; ++j) lane[j] += of(x[i + j]);
        }
        for (std::size_t j = 0; i + j < count; ++j) lane[j] += of(x[i + j]);
        *sum = join_lanes(lane);
    }
};
template <class Term>
double block_sum_of(std::span<const double> x, const Term& term) {
    double sum = 0.0;
    simd::run<SumTerms<Term>>(x.data(), x.size(), &term, &sum);
    return sum;
}
template <class Term>
// The sum of term(0), ..., term(n - 1), in the order of core/fixed_shape_sum.h.
double fixed_sum(std::size_t n, Term&& term) {
    double sum = 0.0;
    for (std::size_t first = 0; first < n; first += sum_block) {
        sum += block_sum(std::min(sum_block, n - first),
                         [&](std::size_t i) { return term(first + i); });
    }
    return sum;
}
inline double sum_of_squares(std::span<const double> x) {
    return fixed_sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
}

struct LargestMagnitude {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, double* amax) {
        constexpr std::size_t lanes = 16;
        double lane[lanes] = {};
        std::size_t i = 0;
        for (; i + lanes <= count; i += lanes) {
            for (std::size_t j = 0; j < lanes; ++j)
                lane[j] = lane[j] < std::abs(x[i + j]) ? std::abs(x[i + j]) : lane[j];
        }
        for (; i < count; ++i) lane[0] = std::max(lane[0], std::abs(x[i]));
        for (const double largest : lane) *amax = std::max(*amax, largest);
    }
};
inline double amax_of(std::span<const double> x) {
    double amax = 0.0;
    simd::run<LargestMagnitude>(x.data(), x.size(), &amax);
    return amax;
}
inline double amax_of(const Rows& rows) {
    double amax = 0.0;
    for (const Row& row : rows) amax = std::max(amax, amax_of(row));
    return amax;
}

// Calls work(run, part) for every run of `length` elements of a row; the last run may be shorter. A
// run is passed in parts of at most sum_block elements, counted from the run's start.
template <class Work>
void for_runs(const RowReader& row, std::size_t length, Work&& work) {
    if (length > sum_block) {
        for (std::size_t begin = 0, run = 0; begin < row.size;
             begin += std::min(length, row.size - begin), ++run) {
            const std::size_t end = begin + std::min(length, row.size - begin);
            for (std::size_t at = begin; at < end; at += sum_block)
                work(run, row.read(at, std::min(sum_block, end - at)));
        }
        return;
    }
    const std::size_t runs = sum_block / length;  // number of runs that are read together
    for (std::size_t begin = 0; begin < row.size; begin += runs * length) {
        const std::span<const double> values =
            row.read(begin, std::min(runs * length, row.size - begin));
        for (std::size_t at = 0; at < values.size(); at += length) {
            work((begin + at) / length, values.subspan(at, std::min(length, values.size() - at)));
        }
    }
}
// sums_of_runs() returns, for each run of `length` elements, the fixed_sum() of term(x).
// raise_to_amax() raises amax[run] to the largest magnitude of the run.
template <class Term>
Row sums_of_runs(const RowReader& row, std::size_t length, Term&& term) {
    Row sums((row.size + length - 1) / length, 0.0);
    for_runs(row, length, [&](std::size_t run, std::span<const double> part) {
        sums[run] += block_sum_of(part, term);
    });
    return sums;
}
inline void raise_to_amax(const RowReader& row, std::size_t length, Row& amax) {
    for_runs(row, length, [&](std::size_t run, std::span<const double> part) {
        amax[run] = std::max(amax[run], amax_of(part));
    });
}
// The fixed_sum() of term(x) over the complete row.
template <class Term>
double fixed_sum_of(const RowReader& row, Term&& term) {
    const Row sums = sums_of_runs(row, std::max<std::size_t>(row.size, 1), term);
    return sums.empty() ? 0.0 : sums[0];
}
inline double amax_of(const RowReader& row) {
    Row amax{0.0};
    raise_to_amax(row, std::max<std::size_t>(row.size, 1), amax);
    return amax[0];
}

inline constexpr auto square = [](double x) { return x * x; };

// Multiplies by 2^exponent, with one rounding.
class Power {
public:
    explicit Power(int exponent) : exponent_(exponent), factor_(std::ldexp(1.0, exponent)) {}
    bool is_normal() const { return std::abs(exponent_) < 1000; }
    double factor() const { return factor_; }
    double times(double x) const { return is_normal() ? x * factor_ : std::ldexp(x, exponent_); }

private:
    int exponent_;
    double factor_;
};
struct Multiply {
    static APSCOPE_INLINE void run(double* x, std::size_t count, double factor) {
        for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
    }
};
inline void multiply_by_power(std::span<double> x, int exponent) {
    const Power power(exponent);
    if (power.is_normal()) return simd::run<Multiply>(x.data(), x.size(), power.factor());
    for (double& v : x) v = power.times(v);
}

}  // namespace apscope::detail
