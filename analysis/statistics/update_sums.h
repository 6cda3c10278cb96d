// UpdateSums compares two updates of an optimizer over a window of steps: from the results of a
// reduction, and from the exact results (docs/definitions.md, section 16). The cosine does not
// change if either update is multiplied by a number.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

namespace apscope::detail {

struct UpdateSums {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    // The sums of u v, u^2 and v^2 over the elements: u is the update with the exact results, v the
    // update with the results of the reduction. NaN if they are not computed.
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
    // 0 if the result is 0; none if the reference is 0.
    std::optional<double> cosine() const {
        if (squared_reference == 0.0) return std::nullopt;
        if (squared_result == 0.0) return 0.0;
        return product / std::sqrt(squared_reference * squared_result);
    }
    // The same three sums for u / |u| and v / |v|. A sum with an update that is 0 is 0.
    UpdateSums of_unit_length() const {
        return {cosine().value_or(0.0), squared_reference != 0.0 ? 1.0 : 0.0,
                squared_result != 0.0 ? 1.0 : 0.0};
    }
};

}  // namespace apscope::detail
