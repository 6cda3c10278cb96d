// Uniform levels relative to the norm of a bucket of consecutive elements (uniform_row.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace apscope::detail {

enum class BucketNorm { l2, max };
struct UniformGrid {
    // s: the number of positive levels.
    int levels = 7;
    // The number of elements that share a norm.
    std::size_t bucket = 512;
    int random_bits = 32;
    BucketNorm norm = BucketNorm::l2;

    int code_bits() const;  // ceil(log2(2 levels + 1))
    std::uint64_t payload_bits(std::size_t elements) const {
        return static_cast<std::uint64_t>(code_bits()) * elements;
    }
};

}  // namespace apscope::detail
