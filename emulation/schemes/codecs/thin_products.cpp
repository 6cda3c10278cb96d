#include "emulation/schemes/codecs/thin_products.h"

#include <algorithm>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// The number of columns in a vector: columns of a thin matrix, padded with zeros, or of M.
constexpr std::size_t lanes = 8;
constexpr std::size_t few = 4;  // number of rows of M that are computed together
// The number of columns of M that are computed together. The parts of `few` rows fit the
// first-level cache.
constexpr std::size_t strip = 512;
// The number of elements of a thin matrix that fit the second-level cache.
constexpr std::size_t in_cache = std::size_t{1} << 14;

using Lanes = double __attribute__((vector_size(8 * lanes)));

APSCOPE_INLINE void load(const double* from, Lanes& x) { __builtin_memcpy(&x, from, sizeof x); }
APSCOPE_INLINE void store(const Lanes& x, double* to) { __builtin_memcpy(to, &x, sizeof x); }

// to[r, k] = sum over j of m[r, j] q[j, k], for `Rows` rows of M and eight columns of Q.
template <std::size_t Rows>
APSCOPE_INLINE void rows_times(const double* m, std::size_t columns, const double* q, double* to) {
    Lanes sums[Rows] = {};
    for (std::size_t j = 0; j < columns; ++j) {
        Lanes of_j;
        load(q + j * lanes, of_j);
        for (std::size_t r = 0; r < Rows; ++r) sums[r] += m[r * columns + j] * of_j;
    }
    for (std::size_t r = 0; r < Rows; ++r) store(sums[r], to + r * lanes);
}
struct TimesThin {
    static APSCOPE_INLINE void run(const double* m, std::size_t rows, std::size_t columns,
                                   const double* q, double* to) {
        std::size_t i = 0;
        for (; i + 2 * few <= rows; i += 2 * few)
            rows_times<2 * few>(m + i * columns, columns, q, to + i * lanes);
        for (; i < rows; ++i) rows_times<1>(m + i * columns, columns, q, to + i * lanes);
    }
};

// to[k, j] += sum over `Rows` rows of m[r, j] p[r, k], one row after another.
template <std::size_t Rows>
APSCOPE_INLINE void add_rows(const double* m, std::size_t columns, const double* p,
                             std::size_t rank, std::size_t count, double* to) {
    for (std::size_t k = 0; k < rank; ++k) {
        double* sum = to + k * columns;
#pragma GCC ivdep  // sum does not overlap the inputs
        for (std::size_t j = 0; j < count; ++j) {
            double s = sum[j];
            for (std::size_t r = 0; r < Rows; ++r) s += m[r * columns + j] * p[r * rank + k];
            sum[j] = s;
        }
    }
}
struct TransposedTimesThin {
    static APSCOPE_INLINE void run(const double* m, std::size_t rows, std::size_t columns,
                                   const double* p, std::size_t rank, double* to) {
        for (std::size_t first = 0; first < columns; first += strip) {
            const std::size_t count = std::min(strip, columns - first);
            std::size_t i = 0;
            for (; i + few <= rows; i += few)
                add_rows<few>(m + i * columns + first, columns, p + i * rank, rank, count,
                              to + first);
            for (; i < rows; ++i)
                add_rows<1>(m + i * columns + first, columns, p + i * rank, rank, count,
                            to + first);
        }
    }
};

// m[r, j] = sum over k of p[r, k] q[k, j], for `Rows` rows and sixteen columns of M.
template <std::size_t Rows>
APSCOPE_INLINE void sixteen_columns(const double* p, const double* q, std::size_t columns,
                                    std::size_t rank, double* m) {
    Lanes left[Rows] = {}, right[Rows] = {};
    for (std::size_t k = 0; k < rank; ++k) {
        Lanes q_left, q_right;
        load(q + k * columns, q_left);
        load(q + k * columns + lanes, q_right);
        for (std::size_t r = 0; r < Rows; ++r) {
            left[r] += p[r * rank + k] * q_left;
            right[r] += p[r * rank + k] * q_right;
        }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
        store(left[r], m + r * columns);
        store(right[r], m + r * columns + lanes);
    }
}
struct ProductOfThin {
    static APSCOPE_INLINE void run(const double* p, const double* q, std::size_t rows,
                                   std::size_t columns, std::size_t rank, double* m) {
        constexpr std::size_t width = 2 * lanes;
        const std::size_t wide = columns / width * width,
                          part = std::max(width, in_cache / rank / width * width);
        for (std::size_t first = 0; first < wide; first += part) {
            const std::size_t end = std::min(first + part, wide);
            std::size_t i = 0;
            for (; i + few <= rows; i += few) {
                for (std::size_t j = first; j < end; j += width)
                    sixteen_columns<few>(p + i * rank, q + j, columns, rank, m + i * columns + j);
            }
            for (; i < rows; ++i) {
                for (std::size_t j = first; j < end; j += width)
                    sixteen_columns<1>(p + i * rank, q + j, columns, rank, m + i * columns + j);
            }
        }
        for (std::size_t j = wide; j < columns; ++j) {
            for (std::size_t i = 0; i < rows; ++i) {
                double sum = 0.0;
                for (std::size_t k = 0; k < rank; ++k) sum += p[i * rank + k] * q[k * columns + j];
                m[i * columns + j] = sum;
            }
        }
    }
};

}  // namespace

Row thin_columns(std::span<const double> thin, std::size_t n, std::size_t rank) {
    Row by_column(n * rank);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < rank; ++k) by_column[k * n + i] = thin[i * rank + k];
    }
    return by_column;
}
Row thin_from_columns(std::span<const double> by_column, std::size_t n, std::size_t rank) {
    Row thin(n * rank);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < rank; ++k) thin[i * rank + k] = by_column[k * n + i];
    }
    return thin;
}

Row times_thin(std::span<const double> m, std::span<const double> q, ThinShape shape) {
    Row out(shape.rows * shape.rank), eight(shape.columns * lanes), sums(shape.rows * lanes);
    for (std::size_t first = 0; first < shape.rank; first += lanes) {
        const std::size_t count = std::min(lanes, shape.rank - first);
        for (std::size_t j = 0; j < shape.columns; ++j) {
            for (std::size_t k = 0; k < lanes; ++k)
                eight[j * lanes + k] = k < count ? q[j * shape.rank + first + k] : 0.0;
        }
        simd::run<TimesThin>(m.data(), shape.rows, shape.columns,
                             static_cast<const double*>(eight.data()), sums.data());
        for (std::size_t i = 0; i < shape.rows; ++i)
            std::copy_n(&sums[i * lanes], count, &out[i * shape.rank + first]);
    }
    return out;
}

Row transposed_times_thin(std::span<const double> m, std::span<const double> p, ThinShape shape) {
    Row by_column(shape.rank * shape.columns, 0.0);
    simd::run<TransposedTimesThin>(m.data(), shape.rows, shape.columns, p.data(), shape.rank,
                                   by_column.data());
    return thin_from_columns(by_column, shape.columns, shape.rank);
}

Row product_of_thin(std::span<const double> p, std::span<const double> q, ThinShape shape) {
    const Row by_column = thin_columns(q, shape.columns, shape.rank);
    Row m(shape.rows * shape.columns);
    simd::run<ProductOfThin>(p.data(), by_column.data(), shape.rows, shape.columns, shape.rank,
                             m.data());
    return m;
}

}  // namespace apscope::detail
