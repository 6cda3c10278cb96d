#include "emulation/schemes/codecs/level_points.h"

#include <algorithm>

namespace apscope::detail {

namespace {

// A sum in fp64, and the sum of its rounding errors.
struct Compensated {
    double sum = 0.0, error = 0.0;
    void add(double x) {
        const double s = sum + x, back = s - sum;
        error += (sum - (s - back)) + (x - back);
        sum = s;
    }
};

}  // namespace

LevelPoints::LevelPoints(std::span<const double> elements, std::span<const double> points)
    : at(points.begin(), points.end()), above(points.size() + padding, 0.0),
      bend(points.size() + padding, 0.0), size_(points.size()), elements_(elements) {
    at.resize(size_ + padding, 0.0);
    Compensated sum, squares;
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) {
        for (; count < elements.size() && elements[count] <= at[i]; ++count) {
            sum.add(elements[count]);
            squares.add(elements[count] * elements[count]);
        }
        above[i] = (static_cast<double>(count) * at[i] - sum.sum) - sum.error;
        bend[i] = (sum.sum * at[i] - squares.sum) + (sum.error * at[i] - squares.error);
    }
    // With n elements every intermediate number is at most 8 n amax^2; the rounding errors add up
    // to less than 64 times 2^-53 n amax^2.
    const double amax = std::max(std::abs(at[0]), std::abs(at[size_ - 1]));
    error = 0x1p-46 * static_cast<double>(elements.size()) * amax * amax;
}

const LevelPoints::Sums& LevelPoints::sums_at(std::size_t i) {
    while (sums_.size() <= i) {
        for (; summed_ < elements_.size() && elements_[summed_] <= at[sums_.size()]; ++summed_) {
            const double x = elements_[summed_];
            last_.count = last_.count + Pair{1.0, 0.0};
            last_.sum = last_.sum + Pair{x, 0.0};
            last_.squares = last_.squares + Pair{x, 0.0} * x;
        }
        sums_.push_back(last_);
    }
    return sums_[i];
}

double LevelPoints::exact_cost(std::size_t i, std::size_t j) {
    sums_at(std::max(i, j));
    const Sums &a = sums_[i], &b = sums_[j];
    const Pair s = b.sum - a.sum, n = b.count - a.count, q = b.squares - a.squares;
    const Pair c = s * at[i] + s * at[j] - q - n * at[i] * at[j];
    return std::max(c.high, 0.0);
}

}  // namespace apscope::detail
