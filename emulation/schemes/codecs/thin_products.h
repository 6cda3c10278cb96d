// Products of a matrix M (rows x columns, row by row) with thin matrices, which have few columns.
// Each element of the result is summed starting from 0, in the order of j, i or k, so it does not
// depend on the instruction set.
//
//      times_thin              out[i, k] = sum over j of M[i, j] Q[j, k]         Q: columns x rank
//      transposed_times_thin   out[j, k] = sum over i of M[i, j] P[i, k]         P: rows x rank
//      product_of_thin         M[i, j]   = sum over k of P[i, k] Q[j, k]
#pragma once

#include <cstddef>
#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

struct ThinShape {
    std::size_t rows, columns, rank;
};

Row times_thin(std::span<const double> m, std::span<const double> q, ThinShape shape);
Row transposed_times_thin(std::span<const double> m, std::span<const double> p, ThinShape shape);
Row product_of_thin(std::span<const double> p, std::span<const double> q, ThinShape shape);

// thin_columns returns the `rank` columns of a thin matrix with n rows, one after another;
// thin_from_columns returns the matrix that has these columns.
Row thin_columns(std::span<const double> thin, std::size_t n, std::size_t rank);
Row thin_from_columns(std::span<const double> by_column, std::size_t n, std::size_t rank);

}  // namespace apscope::detail
