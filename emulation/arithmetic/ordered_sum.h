// Sums, dot products and matrix products with a stated order of additions: every product and every
// addition is one rounding, in formats that may differ, or the sum is exact and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/projection.h"
#include "emulation/arithmetic/arithmetic.h"

namespace apscope::detail {

// Terms t0, t1, ... are exact; round() is a rounding into the accumulator.
struct SumOrder {
    enum class Kind {
        sequential,  // s = round(t0); s = round(s + t) for every further term
        pairwise,    // neighbours are added, then neighbouring sums; an odd last one passes to the
                     // next level
        chunked,     // `chunk` consecutive terms sequentially, then the chunks' sums sequentially
        kahan,       // y = round(t - e), u = round(s + y), e = round(round(u - s) - y), s = u
        exact,       // the exact sum, rounded once
    };
    Kind kind = Kind::sequential;
    std::size_t chunk = 0;
};
// sequential, pairwise, chunked:N, kahan or exact; throws std::invalid_argument.
SumOrder parse_sum_order(std::string_view text);

struct SumOptions {
    SumOrder order;
    FloatFormat format;                     // format of the result
    std::optional<FloatFormat> accumulate;  // format of partial sums; absent: the result's format
    std::optional<FloatFormat> product;     // format of products; absent: products are exact
    Projection projection;                  // for all roundings
    std::uint64_t seed = 0;
    int threads = 1;
    bool registers = true;  // false: use the general path even if a faster one gives the same bits
};

// Stochastic rounding of output i (its flat index) draws words of element i: for product k at stage
// wire and hop k, for the additions, in order, at stage reduce and hops 0, 1, ..., and for the last
// rounding, to `format`, at stage quantize.

// Numbers are fp32 or fp64; fp32 arrays need formats within fp32. Without a product format,
// products are exact: every step is a fused multiply-add. Then pairwise, which adds two products,
// accepts only fp32 numbers and no flushed input (std::invalid_argument).

// out[j] = the sum over k of x[k][j]; x has `terms` rows of out.size() numbers.
template <class Real>
void ordered_sum(std::span<const Real> x, std::size_t terms, std::span<Real> out,
                 const SumOptions& options);
// out[j] = the sum over k of a[k][j] b[k][j].
template <class Real>
void ordered_dot(std::span<const Real> a, std::span<const Real> b, std::size_t terms,
                 std::span<Real> out, const SumOptions& options);
// out[h][i][j] = the sum over k of a[h][i][k] b[h][k][j]; `batches` matrices of `rows` rows each.
template <class Real>
void ordered_matmul(std::span<const Real> a, std::span<const Real> b, std::size_t batches,
                    std::size_t rows, std::size_t terms, std::span<Real> out,
                    const SumOptions& options);

}  // namespace apscope::detail
