// Functions on xtensor's containers, views and lazy expressions of floats or doubles: rounding,
// codes, sums over an axis of workers, statistics of casts; and the rows of a replay as arrays. An
// expression is evaluated once, directly into its result.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// xtensor's headers moved in version 0.26: only this header depends on their location.
#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xoperation.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xoperation.hpp>
#endif

#include "allreduce.h"
#include "blocks.h"
#include "elements.h"
#include "error.h"
#include "quantizer.h"
#include "replay.h"
#include "statistics.h"

namespace apscope {

/// @addtogroup xtensor xtensor
/// @{

namespace detail {

// rank_of<E> is the number of axes of an expression if its type E fixes it, otherwise any_rank.
inline constexpr std::size_t any_rank = SIZE_MAX;
template <class Shape>
inline constexpr std::size_t rank_of_shape = any_rank;
template <class Size, std::size_t Rank>
inline constexpr std::size_t rank_of_shape<std::array<Size, Rank>> = Rank;
template <std::size_t... Lengths>
inline constexpr std::size_t rank_of_shape<xt::fixed_shape<Lengths...>> = sizeof...(Lengths);
template <class E>
inline constexpr std::size_t rank_of = rank_of_shape<std::remove_cvref_t<typename E::shape_type>>;

template <class E>
inline constexpr bool has_reals = is_real<std::remove_const_t<typename E::value_type>>;

// The container for an expression's shape, in C order: an xt::xtensor if the rank is fixed,
// otherwise an xt::xarray.
template <class E, class Number>
using Container = std::conditional_t<
    rank_of<E> == any_rank, xt::xarray<Number, xt::layout_type::row_major>,
    xt::xtensor<Number, rank_of<E> == any_rank ? 0 : rank_of<E>, xt::layout_type::row_major>>;

// Evaluates an expression; the numbers are in C order.
template <class E>
auto evaluated(const xt::xexpression<E>& expression) {
    using Number = std::remove_const_t<typename E::value_type>;
    return Container<E, Number>(expression.derived_cast());
}
template <class E>
auto shape_of(const E& array) {
    return std::vector<std::size_t>(array.shape().begin(), array.shape().end());
}
// An array of E's rank and the shape of the evaluated expression.
template <class E, class Number, class Array>
auto empty_like(const Array& array) {
    typename Container<E, Number>::shape_type shape;
    if constexpr (rank_of<E> == any_rank) shape.resize(array.dimension());
    std::copy(array.shape().begin(), array.shape().end(), shape.begin());
    return Container<E, Number>::from_shape(shape);
}
template <class Array>
auto span_of(Array& array) {
    return std::span(array.data(), array.size());
}
// The number of elements along the axes before one axis, along that axis, and along those after it.
struct AxisPlace {
    std::size_t outer = 1, length = 1, inner = 1;
    std::vector<std::size_t> others;  // the shape without that axis
};
inline AxisPlace place_of(const std::vector<std::size_t>& shape, std::ptrdiff_t axis) {
    const auto axes = static_cast<std::ptrdiff_t>(shape.size());
    if (axis < -axes || axis >= axes) {
        throw error("axis=" + std::to_string(axis) + " does not exist in an array of " +
                    std::to_string(axes) + " axes");
    }
    AxisPlace place;
    const auto along = static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
    place.length = shape[along];
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i == along) continue;
        (i < along ? place.outer : place.inner) *= shape[i];
        place.others.push_back(shape[i]);
    }
    return place;
}

}  // namespace detail

/// Rounds every element; elements count in C order, whatever the layout.
///
/// @param x  Any xtensor expression of floats or doubles.
/// @param q  The format and how to round to it.
/// @return   An array of x's shape and type: xt::xtensor if x's rank is fixed, else xt::xarray; C
///           order.
/// @throws std::invalid_argument  Floats, if the format's values are not fp32 numbers.
template <class E>
[[nodiscard]] auto quantize(const xt::xexpression<E>& x, const Quantizer& q) {
    static_assert(detail::has_reals<E>, "the numbers are float or double");
    auto result = detail::evaluated(x);
    q(detail::span_of(std::as_const(result)), detail::span_of(result));
    return result;
}

/// Rounds every element to a block format, whose blocks run along `axis`; negative axes count from
/// the last.
/// @throws std::invalid_argument  There is no such axis; doubles for a format whose scale is a
///                                ratio.
template <class E>
[[nodiscard]] auto quantize(const xt::xexpression<E>& x, const BlockQuantizer& q, int axis = -1) {
    static_assert(detail::has_reals<E>, "the numbers are float or double");
    auto result = detail::evaluated(x);
    q(detail::span_of(std::as_const(result)), detail::span_of(result), detail::shape_of(result),
      axis);
    return result;
}

/// The codes of the rounded elements.
/// @tparam Code  std::uint8_t, std::uint16_t, std::uint32_t; for doubles also std::uint64_t.
/// @param x         Any xtensor expression of floats or doubles.
/// @param q         The format and how to round to it.
/// @param nan_code  The code of a NaN in a format without NaN.
/// @throws std::invalid_argument  Codes that are too narrow; a NaN that has no code.
template <class Code, class E>
[[nodiscard]] auto encode(const xt::xexpression<E>& x, const Quantizer& q,
                          std::optional<std::uint64_t> nan_code = {}) {
    const auto values = detail::evaluated(x);
    auto codes = detail::empty_like<E, Code>(values);
    q.encode(detail::span_of(values), detail::span_of(codes), nan_code);
    return codes;
}

/// The values of codes, as `Real`.
/// @throws std::invalid_argument  A code wider than the format; floats, if the format's values are
///                                not fp32 numbers.
template <class Real = float, class E>
[[nodiscard]] auto decode(const xt::xexpression<E>& codes, const Quantizer& q) {
    const auto given = detail::evaluated(codes);
    auto values = detail::empty_like<E, Real>(given);
    q.decode(detail::span_of(given), detail::span_of(values));
    return values;
}

/// The sum over an axis of workers, one rounding per addition.
///
/// @param x        Any xtensor expression of floats.
/// @param format   The format of inputs and partial sums; its values must be fp32 numbers.
/// @param axis     The axis of the workers; a negative one counts from the last.
/// @param options  The order of the additions, and their rounding.
/// @return         x's shape without the axis: fp32 numbers as doubles, except for the topology
///                 `exact`.
/// @throws std::invalid_argument  As apscope::allreduce; there is no such axis.
template <class E>
[[nodiscard]] xt::xarray<double> allreduce(const xt::xexpression<E>& x, const FloatFormat& format,
                                           std::ptrdiff_t axis = 0,
                                           const AllreduceOptions& options = {}) {
    static_assert(std::same_as<std::remove_const_t<typename E::value_type>, float>,
                  "each worker's array is a contiguous range of float");
    const auto values = detail::evaluated(x);
    const detail::AxisPlace place = detail::place_of(detail::shape_of(values), axis);
    std::vector<float> rows(values.size());  // the workers' axis first
    for (std::size_t o = 0; o < place.outer; ++o) {
        for (std::size_t w = 0; w < place.length; ++w) {
            std::copy_n(values.data() + (o * place.length + w) * place.inner, place.inner,
                        rows.begin() +
                            static_cast<std::ptrdiff_t>((w * place.outer + o) * place.inner));
        }
    }
    xt::xarray<double> result = xt::xarray<double>::from_shape(place.others);
    allreduce(rows, place.length, detail::span_of(result), format, options);
    return result;
}

/// The errors of a cast, as in apscope::cast_statistics(), for every line along an axis: one number
/// per line in each array.
using CastStatisticsArrays = BasicCastStatistics<xt::xarray<std::int64_t>, xt::xarray<double>>;

/// The errors of rounding all elements of an expression; elements count in C order, whatever the
/// layout.
/// @param x  Any xtensor expression of floats, or of doubles that are float values.
/// @param q  The format, whose values must be fp32 numbers, and how to round to it.
/// @throws std::invalid_argument  As apscope::cast_statistics of a span.
template <class E>
[[nodiscard]] CastStatistics cast_statistics(const xt::xexpression<E>& x, const Quantizer& q) {
    static_assert(detail::has_reals<E>, "the numbers are float or double");
    const auto values = detail::evaluated(x);
    return cast_statistics(detail::span_of(values), q);
}

/// The errors of rounding every line along `axis`; a line is a separate array, whose element i uses
/// word i.
/// @param x     As above.
/// @param q     As above.
/// @param axis  The axis of the lines; negative ones count from the last.
/// @return      Arrays of x's shape without the axis: a matrix along axis 1 gives one number per
///              row.
/// @throws std::invalid_argument  As above; there is no such axis.
template <class E>
[[nodiscard]] CastStatisticsArrays cast_statistics(const xt::xexpression<E>& x, const Quantizer& q,
                                                   std::ptrdiff_t axis) {
    static_assert(detail::has_reals<E>, "the numbers are float or double");
    const auto values = detail::evaluated(x);
    const detail::AxisPlace place = detail::place_of(detail::shape_of(values), axis);
    CastStatisticsArrays all;
    detail::for_each_statistic(all, all,
                               [&place](auto& array, const auto&) { array.resize(place.others); });
    std::vector<std::remove_const_t<typename E::value_type>> line(place.length);
    for (std::size_t l = 0; l < place.outer * place.inner; ++l) {
        const auto* first =
            values.data() + l / place.inner * place.length * place.inner + l % place.inner;
        for (std::size_t i = 0; i < place.length; ++i) line[i] = first[i * place.inner];
        detail::for_each_statistic(all, cast_statistics(std::span(std::as_const(line)), q),
                                   [l](auto& array, auto number) { array.data()[l] = number; });
    }
    return all;
}

/// A column of numbers as an array over (step, tensor, scheme), in the orders of `results.steps()`,
/// `tensors()` and `schemes()`: the basis of a caller's sums over axes. NaN if there is no such
/// row, or if its cell is empty.
///
/// @param results   The results of a replay.
/// @param column    A column of numbers.
/// @param topology  The topology of the reduced rows; empty: the wire's rows.
/// @throws std::invalid_argument  There is no such column of numbers.
inline xt::xtensor<double, 3> table(const Results& results, std::string_view column,
                                    std::string_view topology = "") {
    const std::vector<std::int64_t> steps = results.steps();
    const std::vector<std::string> tensors = results.tensors(), schemes = results.schemes();
    const std::vector<double> values = results.numbers(column), step_of = results.numbers("step");
    const std::vector<std::string_view> tensor_of = results.texts("tensor"),
                                        scheme_of = results.texts("scheme"),
                                        topology_of = results.texts("topology");
    const auto find = [](const auto& names, const auto& name) {
        return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) -
                                        names.begin());
    };
    xt::xtensor<double, 3> all =
        xt::xtensor<double, 3>::from_shape({steps.size(), tensors.size(), schemes.size()});
    all.fill(std::numeric_limits<double>::quiet_NaN());
    for (std::size_t row = 0; row < values.size(); ++row) {
        if (topology_of[row] != topology) continue;
        all(find(steps, static_cast<std::int64_t>(step_of[row])), find(tensors, tensor_of[row]),
            find(schemes, scheme_of[row])) = values[row];
    }
    return all;
}

/// @}

}  // namespace apscope
