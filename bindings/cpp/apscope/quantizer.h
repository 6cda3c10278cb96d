// Quantizer: a prepared format and projection, applied to numbers and arrays.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "elements.h"
#include "export.h"
#include "formats.h"

namespace apscope {

/// @addtogroup quantizer Rounding
/// @{

/// A view of an array of any layout: element (i, j, ...) is data[i * strides[0] + j * strides[1] +
/// ...]. Strides count elements, not bytes, and may be negative or 0. Without axes it is one
/// element, but a view without data and axes, such as a default one, is empty.
template <class Real>
struct StridedView {
    Real* data = nullptr;
    std::span<const std::size_t> shape;
    std::span<const std::ptrdiff_t> strides;
};

/// A real number of up to 126 bits, for numbers that are not fp64 numbers: (-1)^negative (high 2^64
/// + low) 2^exponent; with `inexact` its magnitude is larger by less than 2^exponent.
struct ExactNumber {
    std::uint64_t high = 0, low = 0;
    long exponent = 0;
    bool negative = false;
    bool inexact = false;
};

/// Rounds to a format: every result is a value of the format, an infinity or NaN.
/// Results equal `apscope.quantize` in Python, bit for bit; docs/definitions.md, section 6, is the
/// rule. NaN gives NaN, also in formats without NaN. A Quantizer never changes: several threads may
/// use one, and equal calls give equal results. For this reason stochastic rounding takes the index
/// of a number as a second argument: element i uses word i of the stream with key `seed`, whether
/// it is rounded alone or in an array.
///
/// Arrays are rounded in a floating-point environment with rounding to nearest and without flushing
/// of subnormals, whatever the calling thread has set.
///
/// Copies are cheap, and a move is a copy: no Quantizer is ever empty.
class APSCOPE_API Quantizer {
public:
    /// @param format      The format to round to.
    /// @param projection  Rounding, overflow, underflow, NaN payloads.
    /// @param seed        The seed of stochastic rounding.
    /// @param threads     For arrays; 0 uses all processors that the process may use (its affinity
    ///                    mask and control groups). The number of threads changes no bit.
    /// @throws std::invalid_argument  The fields of the format contradict each other, or it does
    ///                                not support the projection.
    explicit Quantizer(const FloatFormat& format, const Projection& projection = {},
                       std::uint64_t seed = 0, int threads = 1);

    Quantizer(const Quantizer&) = default;
    Quantizer& operator=(const Quantizer&) = default;

    [[nodiscard]] const FloatFormat& format() const;
    [[nodiscard]] const Projection& projection() const;
    [[nodiscard]] std::uint64_t seed() const;
    [[nodiscard]] int threads() const;  ///< as passed to the constructor

    /// One number, rounded once.
    /// @param x        Any number.
    /// @param element  The index of x among the numbers that are rounded with the same seed.
    /// @throws std::invalid_argument  The number is a float and the format's values are not fp32
    ///                                numbers.
    [[nodiscard]] float operator()(float x, std::uint64_t element = 0) const {
        return round_float_(*prepared_, x, element);
    }
    [[nodiscard]] double operator()(double x, std::uint64_t element = 0) const {
        return round_double_(*prepared_, x, element);
    }
    /// Stops the compiler for a number of another type.
    template <class Number>
        requires std::is_arithmetic_v<Number>
    Number operator()(Number x, std::uint64_t = 0) const {
        static_assert(detail::is_real<Number>,
                      "a Quantizer rounds a float or a double; convert the number first");
        return x;
    }
    /// A number that need not be an fp64 number, rounded once; `<apscope/multiprecision.h>` makes
    /// such numbers from Boost's.
    /// @throws std::invalid_argument  An inexact number with fewer than 122 bits, or of more than
    ///                                126; the rounding is stochastic_exact, which needs all
    ///                                digits.
    [[nodiscard]] double operator()(const ExactNumber& x, std::uint64_t element = 0) const;

    /// out[i] = in[i] rounded, at element first + i. `out` is `in`, or does not overlap it.
    /// @throws std::invalid_argument  The lengths differ; `out` overlaps `in` in part; the numbers
    ///                                are floats and the format's values are not fp32 numbers.
    void operator()(std::span<const float> in, std::span<float> out, std::uint64_t first = 0) const;
    void operator()(std::span<const double> in, std::span<double> out,
                    std::uint64_t first = 0) const;
    /// out[i] = c / scale, c = in[i] * scale rounded, at element first + i: a cast under a loss
    /// scale. Results equal `apscope.quantize(..., scale=)` in Python, bit for bit. Product and
    /// quotient are fp64 numbers, to nearest: the product is exact for floats and a scale of at
    /// most 29 significant bits, and for every power of two within fp64's range; a product beyond
    /// it is infinite. A quotient for a float is rounded to fp32 once more. A NaN is converted as
    /// without a scale.
    /// @throws std::invalid_argument  As above; `scale` is not a positive finite number.
    void scaled(double scale, std::span<const float> in, std::span<float> out,
                std::uint64_t first = 0) const;
    void scaled(double scale, std::span<const double> in, std::span<double> out,
                std::uint64_t first = 0) const;
    /// Rounds arrays of any layout, without a scale; elements count in C order. If `out` overlaps
    /// `in`, the result is that for a copy of `in`. Views whose elements lie side by side in C
    /// order are rounded as spans are.
    /// @throws std::invalid_argument  Shapes that differ; a shape and strides of different length;
    ///                                axes without data; floats, if the format's values are not
    ///                                fp32 numbers.
    void operator()(const StridedView<const float>& in, const StridedView<float>& out) const;
    void operator()(const StridedView<const double>& in, const StridedView<double>& out) const;

    /// codes[i] = the code of values[i] rounded: sign bit, exponent field and stored significand
    /// bits in the low bits.
    ///
    /// @param values    Contiguous floats or doubles.
    /// @param codes     As many unsigned integers, of 8, 16 or 32 bits; for doubles also 64.
    /// @param nan_code  The code of a NaN in a format without NaN.
    /// @param first     The element of values[0].
    /// @throws std::invalid_argument  As operator() for arrays; codes that are too narrow; a NaN
    ///                                that has no code.
    template <std::ranges::range Values, std::ranges::range Codes>
    void encode(const Values& values, Codes&& codes, std::optional<std::uint64_t> nan_code = {},
                std::uint64_t first = 0) const {
        if constexpr (detail::takes_codes<const Values, Codes>() && detail::is_written<Codes>()) {
            using Real = std::ranges::range_value_t<Values>;
            using Code = std::ranges::range_value_t<Codes>;
            encode_span(std::span<const Real>(values), std::span<Code>(std::forward<Codes>(codes)),
                        nan_code, first);
        }
    }
    /// values[i] = the value of codes[i]; types as for encode().
    /// @throws std::invalid_argument  As encode(); a code wider than the format.
    template <std::ranges::range Codes, std::ranges::range Values>
    void decode(const Codes& codes, Values&& values) const {
        if constexpr (detail::takes_codes<Values, const Codes>() && detail::is_written<Values>()) {
            using Real = std::ranges::range_value_t<Values>;
            using Code = std::ranges::range_value_t<Codes>;
            decode_span(std::span<const Code>(codes),
                        std::span<Real>(std::forward<Values>(values)));
        }
    }
    /// The code of one number, and the value of one code.
    [[nodiscard]] std::uint64_t encode(double x, std::optional<std::uint64_t> nan_code = {},
                                       std::uint64_t element = 0) const;
    [[nodiscard]] double decode(std::uint64_t code) const;

private:
    struct Prepared;
    template <class Real>
    using RoundOne = Real (*)(const Prepared&, Real, std::uint64_t);

    template <class Real, class Code>
    void encode_span(std::span<const Real> values, std::span<Code> codes,
                     std::optional<std::uint64_t> nan_code, std::uint64_t first) const;
    template <class Code, class Real>
    void decode_span(std::span<const Code> codes, std::span<Real> values) const;

    std::shared_ptr<const Prepared> prepared_;
    RoundOne<float> round_float_;
    RoundOne<double> round_double_;
};

/// @}

}  // namespace apscope
