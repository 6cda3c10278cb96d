// Sums, dot and matrix products of fp32 arrays whose partial sums stay in fp32 or fp64 registers.
// They are used only if a theorem says that the bits are those of the general path in
// emulation/arithmetic/ordered_sum.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/arithmetic/value_range.h"

namespace apscope::detail {

// The path of a sum, and why its roundings are those of the exact results.
enum class SumPath {
    fp32,      // fp32 operations, then a rounding: the first is exact, or the two are one rounding
               // (emulation/arithmetic/value_range.h)
    fp64,      // as fp32, with fp64 operations
    fp64_odd,  // fp64 sums rounded to odd, then a rounding; products of fp32 numbers are exact
    general,   // rows of fp64 numbers and the rounding rule, or wide numbers
};
std::string_view to_string(SumPath path);

// The path for terms in range a or, for products, for factors in ranges a and b. The path depends
// only on these arguments, not on the numbers.
SumPath sum_path(const SumOptions& options, bool products, const ValueRange& a,
                 const ValueRange& b);

// Each function writes the sums in the format `accumulate` (if absent, the result's format), does
// not round them to the result's format, and returns true; or it returns false and leaves `out`
// unchanged.
bool register_sum(std::span<const float> x, std::size_t terms, std::span<float> out,
                  const SumOptions& options);
bool register_dot(std::span<const float> a, std::span<const float> b, std::size_t terms,
                  std::span<float> out, const SumOptions& options);
bool register_matmul(std::span<const float> a, std::span<const float> b, std::size_t batches,
                     std::size_t rows, std::size_t terms, std::span<float> out,
                     const SumOptions& options);

}  // namespace apscope::detail
