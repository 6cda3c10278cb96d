#include "emulation/schemes/codecs/cpd_gemm.h"

#include <algorithm>
#include <vector>

#include "emulation/machine/parallel.h"
#include "emulation/schemes/codecs/cpd_cast.h"

namespace apscope::detail {

namespace {

// The number of elements of an output row that are computed together.
constexpr std::size_t width = 256;

struct Lanes {
    float sum[width], lost[width], y[width], next[width];
};

}  // namespace

void cpd_gemm(std::span<const float> a, std::span<const float> b, std::span<float> out,
              std::size_t m, std::size_t k, std::size_t n, int exponent_bits, int mantissa_bits,
              int threads) {
    const bool casts = exponent_bits != 8 || mantissa_bits != 23;
    const std::size_t strips = (n + width - 1) / width;
    const auto multiply_strip = [&](std::size_t item) {
        const std::size_t row = item / strips, first = item % strips * width,
                          count = std::min(width, n - first);
        const auto cast = [&](float* x) {
            if (casts)
                cpd_cast(std::span(x, count), std::span(x, count), exponent_bits, mantissa_bits);
        };
        Lanes l;
        std::fill_n(l.sum, count, 0.0f);
        std::fill_n(l.lost, count, 0.0f);
        for (std::size_t i = 0; i < k; ++i) {
            const float x = a[row * k + i];
            const float* terms = b.data() + i * n + first;
            for (std::size_t j = 0; j < count; ++j) l.y[j] = x * terms[j];
            cast(l.y);
            for (std::size_t j = 0; j < count; ++j) l.y[j] -= l.lost[j];
            cast(l.y);
            for (std::size_t j = 0; j < count; ++j) l.next[j] = l.sum[j] + l.y[j];
            cast(l.next);
            for (std::size_t j = 0; j < count; ++j) l.lost[j] = l.next[j] - l.sum[j];
            cast(l.lost);
            for (std::size_t j = 0; j < count; ++j) l.lost[j] -= l.y[j];
            cast(l.lost);
            std::copy_n(l.next, count, l.sum);
        }
        std::copy_n(l.sum, count, out.begin() + static_cast<std::ptrdiff_t>(row * n + first));
    };
    parallel_pieces(m * strips, threads, multiply_strip, k * std::min(width, n));
}

}  // namespace apscope::detail
