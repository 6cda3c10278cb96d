// All-reduce: workers' arrays summed as a low-precision collective does, one rounding per addition.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "elements.h"
#include "export.h"
#include "formats.h"

namespace apscope {

/// @addtogroup allreduce All-reduce
/// @{

/// Options of a sum of the workers' arrays.
struct AllreduceOptions {
    /// `exact` (rounded inputs, added in fp64 and not rounded), `sequential`, `sequential+kahan`,
    /// `ring`, `tree`, `hierarchical:G` and all others of docs/definitions.md, section 1.
    std::string topology = "ring";
    Projection projection = {};                  ///< rounding, overflow and random bits
    std::optional<FloatFormat> accumulate = {};  ///< format of partial sums; by default the inputs'
    /// The rounding of partial sums; by default the projection's.
    std::optional<RoundingMode> hop_rounding = {};
    bool input_cast = true;  ///< true: the inputs are first rounded to the format
    /// The seed of stochastic rounding. An input's random word depends on its worker, that of a
    /// partial sum on its addition.
    std::uint64_t seed = 0;
    int threads = 1;  ///< 0: all processors of the process; the number of threads changes no bit
};

/// The sum of the workers' arrays, bit for bit as `apscope.allreduce` in Python.
///
/// @param in       `workers` arrays of out.size() numbers, one after another.
/// @param workers  At least 1.
/// @param out      The sum (not the mean): fp32 numbers, except for the topology `exact`.
/// @param format   The format of inputs and partial sums; its values must be fp32 numbers.
/// @param options  The order of the additions, and their rounding.
/// @throws std::invalid_argument  No worker, lengths that do not fit, an unknown topology, `+kahan`
///                                without an accumulator for the compensation, an unsupported
///                                format or projection.
APSCOPE_API void allreduce(std::span<const float> in, std::size_t workers, std::span<double> out,
                           const FloatFormat& format, const AllreduceOptions& options = {});

/// The sum of separate arrays: one contiguous range of floats per worker.
template <std::ranges::input_range Rows>
    requires std::ranges::range<std::ranges::range_reference_t<const Rows>>
[[nodiscard]] std::vector<double> allreduce(const Rows& rows, const FloatFormat& format,
                                            const AllreduceOptions& options = {});

namespace detail {
APSCOPE_API std::vector<double> allreduce_rows(std::span<const std::span<const float>> rows,
                                               const FloatFormat& format,
                                               const AllreduceOptions& options);
}

template <std::ranges::input_range Rows>
    requires std::ranges::range<std::ranges::range_reference_t<const Rows>>
std::vector<double> allreduce(const Rows& rows, const FloatFormat& format,
                              const AllreduceOptions& options) {
    using Row = std::ranges::range_reference_t<const Rows>;
    constexpr bool floats =
        detail::is_contiguous<Row> && std::same_as<std::ranges::range_value_t<Row>, float>;
    static_assert(floats, "each worker's array is a contiguous range of float");
    std::vector<std::span<const float>> spans;
    if constexpr (floats) {
        for (const auto& row : rows) spans.emplace_back(row);
    }
    return detail::allreduce_rows(spans, format, options);
}

/// @}

}  // namespace apscope
