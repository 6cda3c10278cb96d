// UpdateSums: what an optimizer does in a window of steps with the results of a reduction, against
// the exact ones (docs/definitions.md, section 16). Their cosine does not change if either is
// multiplied by a number.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

namespace apscope::detail {

struct UpdateSums {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    // Of u v, of u^2 and of v^2 over the elements: u with the exact results, v with those of the
    // reduction. NaN where they are not added up.
    double product = none, squared_reference = none, squared_result = none;

    void add(const UpdateSums& other) {
        product += other.product;
        squared_reference += other.squared_reference;
        squared_result += other.squared_result;
    }
    void multiply(double factor) {
        product *= factor;
        squared_reference *= factor;
        squared_result *= factor;
    }
    // 0 for a result of 0; none for a reference of 0.
    std::optional<double> cosine() const {
        if (squared_reference == 0.0) return std::nullopt;
        if (squared_result == 0.0) return 0.0;
        return product / std::sqrt(squared_reference * squared_result);
    }
    // Those of two vectors that are divided by their lengths.
    UpdateSums of_unit_length() const {
        return {cosine().value_or(0.0), squared_reference != 0.0 ? 1.0 : 0.0,
                squared_result != 0.0 ? 1.0 : 0.0};
    }
};

}  // namespace apscope::detail
