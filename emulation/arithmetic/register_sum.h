// Sums, dot and matrix products of fp32 arrays whose partial sums stay in fp32 or fp64 registers.
// These functions run only if a theorem (value_range.h) shows that the results have the same bits
// as in the general path in emulation/arithmetic/ordered_sum.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/arithmetic/value_range.h"

namespace apscope::detail {

// The rounding steps of sums and of products; Step::none for exact products.
template <class Real>
struct SumSteps {
    StepCast<Real> sum, product;
};
// Returns nothing if one of the formats has no step. The projection must have been validated.
template <class Real>
std::optional<SumSteps<Real>> make_sum_steps(const SumOptions& options);

// The path of a sum, with the reason why its roundings equal those of the exact results.
enum class SumPath {
    fp32,      // fp32 operations, then a rounding: the operation is exact, or the two roundings
               // equal one (emulation/arithmetic/value_range.h)
    fp64,      // fp64 operations, then a rounding, for the same reasons
    fp64_odd,  // fp64 sums rounded to odd, then a rounding; products of fp32 numbers are exact
    general,   // rows of fp64 numbers and the rounding rule, or wide numbers
};
std::string_view to_string(SumPath path);

// The path for terms in range a or, for products, for factors in ranges a and b. The path depends
// only on these arguments, not on the numbers.
SumPath sum_path(const SumOptions& options, bool products, const ValueRange& a,
                 const ValueRange& b);

// If the path uses registers, each function writes the sums in the format SumOptions::accumulate,
// or in the result's format if `accumulate` is absent, and returns true; the caller rounds them to
// the result's format. Otherwise the function returns false and leaves `out` unchanged.
bool register_sum(std::span<const float> x, std::size_t terms, std::span<float> out,
                  const SumOptions& options);
bool register_dot(std::span<const float> a, std::span<const float> b, std::size_t terms,
                  std::span<float> out, const SumOptions& options);
bool register_matmul(std::span<const float> a, std::span<const float> b, std::size_t batches,
                     std::size_t rows, std::size_t terms, std::span<float> out,
                     const SumOptions& options);

}  // namespace apscope::detail
