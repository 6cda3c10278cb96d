// The loops of encode and reduce over fp64 rows, one struct each with a static run(), compiled per
// instruction set by simd::run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exact_sum.h"
#include "core/philox.h"
#include "core/stochastic_moments.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// The random words of consecutive elements, one block of Philox at a time.
class RandomWords {
public:
    APSCOPE_INLINE explicit RandomWords(const RandomStream& stream) : stream_(stream), slots_(RandomStream::slots(stream.random_bits)) {}
    APSCOPE_INLINE std::uint64_t at(std::uint64_t element) {
        const std::uint64_t index = element / slots_;
        if (index != held_) {
            block_ = stream_.block(index);
            held_ = index;
        }
        return stream_.slot(block_, static_cast<int>(element % slots_));
    }

private:
    RandomStream stream_;
    std::uint64_t slots_;
    std::uint64_t held_ = ~std::uint64_t{0};
    PhiloxBlock block_{};
};

// out = round(scale * in); the product of two fp32-born numbers is exact in fp64.
template <RoundingMode M, bool Plain>
struct EncodeRow {
    static APSCOPE_INLINE void run(const float* in, double* out, std::size_t count, double scale, const Cast<double>* given,
                                   const RandomStream* stream, std::uint64_t first) {
        const Cast<double> cast = known<Plain>(*given);
        if constexpr (is_stochastic(M)) {
            RandomWords words(*stream);
            for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, double>(in[i] * scale, cast, words.at(first + i));
        } else {
            for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, double>(in[i] * scale, cast, 0);
        }
    }
};

// target = round(target + sign * source).
template <RoundingMode M, bool Plain>
struct AddRow {
    static APSCOPE_INLINE void run(double* target, const double* source, double sign, std::size_t count, const Cast<double>* given,
                                   const RandomStream* stream, std::uint64_t first) {
        const Cast<double> cast = known<Plain>(*given);
        if constexpr (is_stochastic(M)) {
            RandomWords words(*stream);
            for (std::size_t i = 0; i < count; ++i) {
                target[i] = add_rounded<M>(target[i], sign * source[i], cast, words.at(first + i));
            }
        } else {
            for (std::size_t i = 0; i < count; ++i) target[i] = add_rounded<M>(target[i], sign * source[i], cast, 0);
        }
    }
};

}  // namespace apscope::detail
