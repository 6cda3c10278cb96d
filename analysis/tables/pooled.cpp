#include "analysis/tables/pooled.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "analysis/tables/array.h"

namespace apscope::detail {

namespace {

// One axis at a time, tensors (axis 1) before steps (axis 0): xtensor adds along one axis in the
// order of its indices.
template <class T>
xt::xarray<T> add_up(xt::xarray<T> table, bool over_steps, bool over_tensors) {
    if (over_tensors) table = xt::xarray<T>(xt::sum<T>(table, {1}));
    if (over_steps) table = xt::xarray<T>(xt::sum<T>(table, {0}));
    return table;
}

}  // namespace

Pooled pool(std::span<const double> table, std::array<std::size_t, 3> shape, bool over_steps, bool over_tensors) {
    const std::size_t size = shape[0] * shape[1] * shape[2];
    if (table.size() != size) {
        throw std::invalid_argument("a table of " + std::to_string(shape[0]) + " steps, " + std::to_string(shape[1]) +
                                    " tensors and " + std::to_string(shape[2]) + " variants holds " + std::to_string(size) +
                                    " values, not " + std::to_string(table.size()));
    }
    const auto values = xt::adapt(table.data(), size, xt::no_ownership(), shape);
    const auto there = xt::equal(values, values);  // false for NaN
    const auto present = add_up<std::int64_t>(xt::where(there, std::int64_t{1}, std::int64_t{0}), over_steps, over_tensors);
    const auto sums = add_up<double>(xt::where(there, values, 0.0), over_steps, over_tensors);
    const xt::xarray<double> result = xt::where(present > 0, sums, std::numeric_limits<double>::quiet_NaN());
    return {{result.shape().begin(), result.shape().end()},
            {result.begin(), result.end()},
            {present.begin(), present.end()}};
}

}  // namespace apscope::detail
