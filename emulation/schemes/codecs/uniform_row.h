// Stochastic rounding to uniform levels relative to the norm of a bucket of consecutive elements,
// as in QSGD (docs/definitions.md, section 8): the levels -s..s are evenly spaced over -norm..norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/philox.h"
#include "emulation/schemes/codecs/uniform_grid.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// The norm of each bucket of a row, rounded to a finite fp32 number.
Row bucket_norms(const RowReader& row, const UniformGrid& grid);

// Rounds `in`, the finite elements first .. first + in.size() - 1 of a row, to the decoded values y
// in `out`. Also writes E[y] - x to `bias`, Var[y] to `variance` and the signed level of each
// element to `levels`. norms: the bucket_norms() of the row.
void quantize_uniform(std::span<const double> in, std::span<double> out, const UniformGrid& grid,
                      std::span<const double> norms, const RandomStream& stream, std::size_t first,
                      std::span<double> bias, std::span<double> variance, std::span<double> levels);

// Encodes the finite elements first .. first + x.size() - 1 of a row. The message m has levels and
// signs, and the norms of all buckets as side information.
void encode_uniform_row(Message& m, std::span<const double> x, const UniformGrid& grid,
                        std::span<const double> norms, const RandomStream& stream, bool packs,
                        std::size_t first);

}  // namespace apscope::detail
