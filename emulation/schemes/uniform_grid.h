// Uniform levels over the norm of a bucket, rounded stochastically (docs/definitions.md,
// section 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/philox.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// fl32 of the l2 norm of each bucket's finite elements, at most the largest fp32 number.
std::vector<float> bucket_norms(std::span<const float> row, std::size_t bucket);

// Decoded values of elements first .. first + in.size() - 1 of a row (in[0] is element `first`),
// and, if the spans are not empty, E[y] - x and Var[y] of each.
void quantize_uniform(std::span<const float> in, std::span<double> out, const UniformGrid& grid, std::span<const float> norms,
                      PhiloxKey key, std::uint32_t worker, std::size_t first, std::span<double> bias, std::span<double> variance);

// A whole row of fp64 values as one message: levels, signs and norms.
Message encode_uniform_row(std::span<const double> x, const UniformGrid& grid, const RandomStream& stream, bool packs);

}  // namespace apscope::detail
