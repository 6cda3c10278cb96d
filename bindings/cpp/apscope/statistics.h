// The errors of one cast of an array: counts, sums and means, in the pass that rounds.
#pragma once

#include <cstdint>
#include <span>

#include "export.h"
#include "quantizer.h"

namespace apscope {

/// @addtogroup statistics Statistics of a cast
/// @{

/// The errors of a cast of x to y: the columns of docs/definitions.md, section 3. Sums and means
/// are over the counted pairs, in the unit of x, or its square for squares; nmse, relative_bias,
/// cosine and underflow_rate have no unit. A number that does not exist is NaN: an empty array has
/// no mean, an all-zero array no NMSE. With overflow no error is finite: mse, variance and nmse are
/// infinite, sqnr_db is minus infinity, cosine 0 and rescaled_nmse 1.
/// @tparam Count  The type of counts.
/// @tparam Real   The type of the other numbers.
template <class Count, class Real>
struct BasicCastStatistics {
    Count count{};             ///< elements
    Count counted{};           ///< pairs of a finite x and a finite y
    Count nonzero{};           ///< finite x that is not 0
    Count underflow{};         ///< finite x that is not 0 and became 0
    Real underflow_rate{};     ///< underflow / nonzero
    Count subnormal{};         ///< finite x, not 0, below the format's smallest normal number
    Count saturated{};         ///< finite x above the largest value, rounded to the largest value
    Count overflow{};          ///< finite x that became infinite or NaN
    Count nan{};               ///< NaN in x
    Count infinite{};          ///< infinities in x
    Real bias{};               ///< mean of y - x
    Real relative_bias{};      ///< sum_signed_error / sum_absolute_reference: below 0 if magnitudes
                               ///< shrink
    Real variance{};           ///< mse - bias^2, not below 0
    Real expected_bias{};      ///< mean of E[y] - x, where E is the expectation over the draws of
                               ///< stochastic rounding; NaN if a draw may overflow
    Real expected_variance{};  ///< mean of Var[y] over these draws; NaN if a draw may overflow
    Real mse{};                ///< mean of (y - x)^2
    Real nmse{};               ///< sum_squared_error / sum_squared_reference
    Real sqnr_db{};            ///< -10 log10 nmse, in decibels; infinite without an error
    Real cosine{};             ///< cosine of the angle between y and x
    Real rescaled_nmse{};      ///< the least nmse of f y over all factors f
    Real max_ulp{};            ///< the largest error, in units of the last place of the format at x
    Real sum_error{};          ///< sum of y - x
    Real sum_squared_error{};  ///< sum of (y - x)^2
    Real sum_squared_reference{};   ///< sum of x^2
    Real sum_signed_error{};        ///< sum of sign(x) (y - x)
    Real sum_absolute_reference{};  ///< sum of abs(x)
};

/// The errors of a cast of one array.
using CastStatistics = BasicCastStatistics<std::int64_t, double>;

/// The errors of rounding every element, bit for bit those of `apscope.cast_statistics` in Python.
///
/// The function reads the numbers once. For a scheme with a scale, multiply x by the scale
/// beforehand.
///
/// @param x    The numbers; may be empty.
/// @param q    The format, whose values must be fp32 numbers, and the rounding; element i uses word
///             i.
/// @param out  Receives the rounded numbers, those of q(x, out); may be empty. It must not overlap
///             x, with which the statistics compare it.
/// @throws std::invalid_argument  A format whose values are not fp32 numbers; stochastic_exact
///                                rounding; an `out` that is neither empty nor as long as x, or
///                                overlaps it.
APSCOPE_API CastStatistics cast_statistics(std::span<const float> x, const Quantizer& q,
                                           std::span<float> out = {});
/// The errors of rounding doubles that are fp32 numbers, such as results of decode().
/// @param x  The numbers; may be empty.
/// @param q  The format and the rounding.
/// @throws std::invalid_argument  A format whose values are not fp32 numbers; stochastic_exact
///                                rounding; a number in x that is not an fp32 number.
APSCOPE_API CastStatistics cast_statistics(std::span<const double> x, const Quantizer& q);

namespace detail {

// Calls f(field of `to`, field of `from`) for every statistic, to copy the statistics of an array
// or of a row of results.
template <class To, class From, class F>
void for_each_statistic(To& to, const From& from, F&& f) {
    f(to.count, from.count);
    f(to.counted, from.counted);
    f(to.nonzero, from.nonzero);
    f(to.underflow, from.underflow);
    f(to.underflow_rate, from.underflow_rate);
    f(to.subnormal, from.subnormal);
    f(to.saturated, from.saturated);
    f(to.overflow, from.overflow);
    f(to.nan, from.nan);
    f(to.infinite, from.infinite);
    f(to.bias, from.bias);
    f(to.relative_bias, from.relative_bias);
    f(to.variance, from.variance);
    f(to.expected_bias, from.expected_bias);
    f(to.expected_variance, from.expected_variance);
    f(to.mse, from.mse);
    f(to.nmse, from.nmse);
    f(to.sqnr_db, from.sqnr_db);
    f(to.cosine, from.cosine);
    f(to.rescaled_nmse, from.rescaled_nmse);
    f(to.max_ulp, from.max_ulp);
    f(to.sum_error, from.sum_error);
    f(to.sum_squared_error, from.sum_squared_error);
    f(to.sum_squared_reference, from.sum_squared_reference);
    f(to.sum_signed_error, from.sum_signed_error);
    f(to.sum_absolute_reference, from.sum_absolute_reference);
}

}  // namespace detail

/// @}

}  // namespace apscope
