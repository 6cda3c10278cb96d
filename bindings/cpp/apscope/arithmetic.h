// Arithmetic in any format. Every operation is computed exactly and rounded once. Sums, dot
// products and matrix products add in a stated order, with separate formats for products and
// partial sums.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

#include "elements.h"
#include "export.h"
#include "formats.h"

namespace apscope {

/// @addtogroup arithmetic Arithmetic
/// @{

/// The rounding of results.
struct Rounding {
    FloatFormat format = {};     ///< format of the results
    Projection projection = {};  ///< any except stochastic_exact, which is only for casts
    std::uint64_t seed = 0;      ///< seed of stochastic rounding: element i uses word i
    int threads = 1;  ///< 0: all processors of the process; the number of threads changes no bit
};

/// The computation of sums.
struct Summation {
    FloatFormat format = {};  ///< format of the results
    /// The order of the additions: `sequential`, `pairwise`, `chunked:N`, `kahan`, `exact` (the
    /// exact sum, rounded once) or, for products, `unit:NAME`: as a device's matrix unit adds
    /// (docs/definitions.md, section 10), which needs the format of its results, the default
    /// projection, and neither `accumulate` nor `product`.
    std::string order = "sequential";
    /// The format of partial sums; by default the results' format.
    std::optional<FloatFormat> accumulate = {};
    /// The format of products; by default they are exact, and each step is a fused multiply-add.
    std::optional<FloatFormat> product = {};
    Projection projection = {};  ///< projection of all roundings
    std::uint64_t seed = 0;      ///< seed of stochastic rounding
    int threads = 1;             ///< as in Rounding
};

/// The sizes of a product of matrices: a is (batches, rows, terms), b (batches, terms, columns),
/// and the product (batches, rows, columns).
struct MatrixSizes {
    std::size_t rows = 1, terms = 1, columns = 1, batches = 1;
};

/// out[i] = round(a[i] op b[i] (op c[i])).
///
/// @param operation  `add`, `subtract`, `multiply`, `divide`, `sqrt` or `fma` (a b + c).
/// @param a, b, c    One number, or as many as `out`; operands that the operation does not take
///                   are ignored. Operands need not be values of the format.
/// @param out        May be one of the operands, but must not overlap one in part.
/// @param how        The rounding.
/// @throws std::invalid_argument  An unknown operation, lengths that differ, a format that does
///                                not support the projection, floats with a format whose values
///                                are not fp32 numbers.
APSCOPE_API void arithmetic(std::string_view operation, std::span<const float> a,
                            std::span<const float> b, std::span<const float> c,
                            std::span<float> out, const Rounding& how);
APSCOPE_API void arithmetic(std::string_view operation, std::span<const double> a,
                            std::span<const double> b, std::span<const double> c,
                            std::span<double> out, const Rounding& how);

/// out[j] = the sum over k of x[k][j]; x has `terms` rows of out.size() numbers.
/// @throws std::invalid_argument  As arithmetic(); an unknown order; `out` overlaps `x`, except as
///                                its first row.
APSCOPE_API void sum(std::span<const float> x, std::size_t terms, std::span<float> out,
                     const Summation& how);
APSCOPE_API void sum(std::span<const double> x, std::size_t terms, std::span<double> out,
                     const Summation& how);

/// out = a b, matrices in C order.
///
/// @param a, b   The factors.
/// @param out    The product.
/// @param sizes  The sizes of the matrices.
/// @param how    The order of the additions and the formats.
/// @param c      For an order `unit:...` only: numbers that the unit adds to the product, as many
///               as `out` has; by default +0.
/// @throws std::invalid_argument  As sum(); lengths that do not match `sizes`; `out` overlaps a
///                                factor or `c`; factors that are not values of the unit's formats.
APSCOPE_API void matmul(std::span<const float> a, std::span<const float> b, std::span<float> out,
                        const MatrixSizes& sizes, const Summation& how,
                        std::span<const float> c = {});
APSCOPE_API void matmul(std::span<const double> a, std::span<const double> b, std::span<double> out,
                        const MatrixSizes& sizes, const Summation& how,
                        std::span<const double> c = {});

/// The sum of all numbers of a contiguous range of floats or doubles.
template <std::ranges::range Numbers>
[[nodiscard]] auto sum(const Numbers& x, const Summation& how) {
    using Real = std::ranges::range_value_t<Numbers>;
    Real result{};
    if constexpr (detail::takes_numbers<const Numbers>())
        sum(std::span<const Real>(x), std::ranges::size(x), std::span<Real>(&result, 1), how);
    return result;
}
/// The sum of products of two contiguous ranges of one type of numbers.
template <std::ranges::range A, std::ranges::range B>
[[nodiscard]] auto dot(const A& a, const B& b, const Summation& how) {
    using Real = std::ranges::range_value_t<A>;
    constexpr bool same = std::same_as<Real, std::ranges::range_value_t<B>>;
    static_assert(same, "both factors of a dot product are float, or both double");
    Real result{};
    if constexpr (detail::takes_numbers<const A>() && detail::takes_numbers<const B>() && same) {
        matmul(std::span<const Real>(a), std::span<const Real>(b), std::span<Real>(&result, 1),
               {.terms = std::ranges::size(a)}, how);
    }
    return result;
}

/// One operation on numbers, rounded once.
template <class Real>
[[nodiscard]] Real apply(std::string_view operation, Real a, Real b, Real c, const Rounding& how) {
    Real result{};
    if constexpr (detail::takes_number<Real>()) {
        arithmetic(operation, std::span<const Real>(&a, 1), std::span<const Real>(&b, 1),
                   std::span<const Real>(&c, 1), std::span<Real>(&result, 1), how);
    }
    return result;
}
template <class Real>
[[nodiscard]] Real add(Real a, Real b, const Rounding& how) {
    return apply("add", a, b, Real{}, how);
}
template <class Real>
[[nodiscard]] Real subtract(Real a, Real b, const Rounding& how) {
    return apply("subtract", a, b, Real{}, how);
}
template <class Real>
[[nodiscard]] Real multiply(Real a, Real b, const Rounding& how) {
    return apply("multiply", a, b, Real{}, how);
}
template <class Real>
[[nodiscard]] Real divide(Real a, Real b, const Rounding& how) {
    return apply("divide", a, b, Real{}, how);
}
template <class Real>
[[nodiscard]] Real sqrt(Real a, const Rounding& how) {
    return apply("sqrt", a, Real{}, Real{}, how);
}
/// a b + c
template <class Real>
[[nodiscard]] Real fma(Real a, Real b, Real c, const Rounding& how) {
    return apply("fma", a, b, c, how);
}

/// @}

}  // namespace apscope
