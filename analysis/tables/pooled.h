// Pooled sums: a column of the results, arranged as (steps, tensors, variants), added up over steps,
// tensors or both. A variant is whatever is compared: a scheme, a topology and a stage. Errors of
// many tensors pool by adding their sums and dividing once (docs/definitions.md), never by
// averaging rates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace apscope::detail {

struct Pooled {
    std::vector<std::size_t> shape;      // of the table, without the axes added over
    std::vector<double> sums;            // NaN where no entry was there
    std::vector<std::int64_t> present;   // entries that each sum holds
};

// `table` holds shape[0] * shape[1] * shape[2] values, the last axis fastest; NaN is a missing
// entry, adds nothing and is not counted. The order of the additions is part of the result: for
// each step the tensors in their order, then the steps in theirs. Throws std::invalid_argument if
// the length disagrees with the shape.
Pooled pool(std::span<const double> table, std::array<std::size_t, 3> shape, bool over_steps, bool over_tensors);

}  // namespace apscope::detail
