// Sums, dot and matrix products of fp32 arrays whose partial sums stay in fp32 or fp64 registers:
// the same bits as emulation/arithmetic/ordered_sum.cpp's general path, if a theorem says so.
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
    fp32,      // fp32 operations, then a rounding: exact, or twice rounded safely
               // (emulation/arithmetic/value_range.h)
    fp64,      // the same with fp64 operations
    fp64_odd,  // fp64 sums rounded to odd, then a rounding; products of fp32 numbers are exact
    general,   // rows of fp64 numbers and the rule, or wide numbers
};
std::string_view to_string(SumPath path);

// The path for terms of this range (the products' factors: a and b). Depends on nothing else but
// the options.
SumPath sum_path(const SumOptions& options, bool products, const ValueRange& a,
                 const ValueRange& b);

// Each writes the sums as the format `accumulate` has them (the result's, without it), not yet
// rounded to the result's, and returns true; or returns false and leaves `out` alone.
bool register_sum(std::span<const float> x, std::size_t terms, std::span<float> out,
                  const SumOptions& options);
bool register_dot(std::span<const float> a, std::span<const float> b, std::size_t terms,
                  std::span<float> out, const SumOptions& options);
bool register_matmul(std::span<const float> a, std::span<const float> b, std::size_t batches,
                     std::size_t rows, std::size_t terms, std::span<float> out,
                     const SumOptions& options);

}  // namespace apscope::detail
