// Uniform levels over the norm of a bucket, rounded stochastically (docs/definitions.md,
// section 8): levels -s..s, evenly spaced over -norm..norm of so many consecutive elements. (QSGD)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/philox.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

enum class BucketNorm { l2, max };
struct UniformGrid {
    int levels = 7;
    std::size_t bucket = 512;
    int random_bits = 32;
    BucketNorm norm = BucketNorm::l2;

    int code_bits() const;  // ceil(log2(2 levels + 1))
    std::uint64_t payload_bits(std::size_t elements) const { return static_cast<std::uint64_t>(code_bits()) * elements; }
};

// Decoded values of finite elements first .. first + in.size() - 1 of a row (in[0] is element `first`), with E[y] - x,
// Var[y] and the signed level of each; `norms` are those of the row's buckets, fp32 numbers.
void quantize_uniform(std::span<const double> in, std::span<double> out, const UniformGrid& grid, std::span<const float> norms,
                      const RandomStream& stream, std::size_t first, std::span<double> bias, std::span<double> variance, std::span<double> levels);

// A whole row as one message: levels, signs and norms.
Message encode_uniform_row(std::span<const double> x, const UniformGrid& grid, const RandomStream& stream, bool packs);

}  // namespace apscope::detail
