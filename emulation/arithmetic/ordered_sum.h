// Sums, dot products and matrix products with a stated order of additions: every product and every
// addition is rounded once, to formats that may differ, or the exact sum is rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/matrix_unit_presets.h"
#include "core/projection.h"
#include "emulation/arithmetic/arithmetic.h"

namespace apscope::detail {

// The order of additions. Terms t0, t1, ... are exact; round() rounds to the accumulator's format.
struct SumOrder {
    enum class Kind {
        sequential,  // s = round(t0); s = round(s + t) for every further term
        pairwise,    // neighbouring terms are added, then neighbouring sums; without a neighbour,
                     // the last one passes to the next level
        chunked,     // `chunk` consecutive terms are added sequentially, then the sums of the
                     // chunks
        kahan,       // y = round(t - e), u = round(s + y), e = round(round(u - s) - y), s = u
        exact,       // the exact sum, rounded once
        unit,        // as a matrix unit adds products (core/matrix_unit.h)
    };
    Kind kind = Kind::sequential;
    std::size_t chunk = 0;                             // terms per chunk; Kind::chunked only
    std::shared_ptr<const MatrixUnitOrder> unit = {};  // Kind::unit only
};
// Parses sequential, pairwise, chunked:N, kahan, exact or unit:...; throws std::invalid_argument
// for other texts.
SumOrder parse_sum_order(std::string_view text);

struct SumOptions {
    SumOrder order;
    FloatFormat format;                     // format of the result
    std::optional<FloatFormat> accumulate;  // format of partial sums; absent: the result's format
    std::optional<FloatFormat> product;     // format of products; absent: products are exact
    Projection projection;                  // for all roundings
    std::uint64_t seed = 0;
    int threads = 1;
    bool registers = true;  // false: the general path is used even if a faster path gives the same
                            // bits
};

// Stochastic roundings for the output with flat index i draw words of element i: product k at stage
// wire and hop k, the additions, in order, at stage reduce and hops 0, 1, ..., and the last
// rounding, to `format`, at stage quantize.

// Numbers are fp32 or fp64. For fp32 arrays, the values of all formats must be fp32 numbers.
// Without a product format, products are exact, so every step is a fused multiply-add. Then the
// order pairwise, which adds two products, accepts only fp32 numbers and no flushed inputs
// (std::invalid_argument).

// out[j] = the sum over k of x[k][j]; x has `terms` rows of out.size() numbers.
template <class Real>
void ordered_sum(std::span<const Real> x, std::size_t terms, std::span<Real> out,
                 const SumOptions& options);
// The order of a matrix unit adds products only, and rounds by its own rule: `format` must be that
// of the unit's results, and there is no other format and only the default projection. `c` is C, of
// out's size or, for +0, empty; other orders take no C. `scales` are those of units whose operands
// have some.

// The order of a matrix unit, or null for another order; throws std::invalid_argument for options
// that the order does not take.
const MatrixUnitOrder* unit_order(const SumOptions& options, bool has_c, bool has_scales);

// out[j] = the sum over k of a[k][j] b[k][j].
template <class Real>
void ordered_dot(std::span<const Real> a, std::span<const Real> b, std::size_t terms,
                 std::span<Real> out, const SumOptions& options, std::span<const Real> c = {});
// out[h][i][j] = the sum over k of a[h][i][k] b[h][k][j]; `batches` matrices of `rows` rows each.
template <class Real>
void ordered_matmul(std::span<const Real> a, std::span<const Real> b, std::size_t batches,
                    std::size_t rows, std::size_t terms, std::span<Real> out,
                    const SumOptions& options, std::span<const Real> c = {},
                    const UnitScales<Real>& scales = {});

}  // namespace apscope::detail
