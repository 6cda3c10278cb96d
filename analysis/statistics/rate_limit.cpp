#include "analysis/statistics/rate_limit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/fixed_exp2.h"
#include "core/fixed_log2.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

constexpr double two_pi_e = 17.079468445347132;

// A sum in the fixed shape, of terms that are added one by one.
class StreamedSum {
public:
    void add(double term) {
        held_[count_++] = term;
        if (count_ == sum_block) flush();
    }
    double total() {
        flush();
        return total_;
    }

private:
    void flush() {
        total_ += block_sum(count_, [&](std::size_t i) { return held_[i]; });
        count_ = 0;
    }

    std::vector<double> held_ = std::vector<double>(sum_block);
    std::size_t count_ = 0;
    double total_ = 0.0;
};

// h(w) of the values `sorted`, which ascend; log2_of[c] is log2 c for c = 1..n. The beginnings and
// the ends of the intervals (rate_limit.h) are each in ascending order, so a merge visits both. At
// equal places beginnings come first, which adds only intervals of length 0.
double entropy(std::span<const double> sorted, std::span<const double> log2_of, double w) {
    const std::size_t n = sorted.size();
    const double half = 0.5 * w, mass = static_cast<double>(n) * w, log2_mass = fixed_log2(mass);
    StreamedSum sum;
    double last = sorted.front() - half;
    std::size_t begun = 0;
    for (std::size_t ended = 0; ended < n;) {
        const double end = sorted[ended] + half;
        const bool begins = begun < n && sorted[begun] - half <= end;
        const double at = begins ? sorted[begun] - half : end;
        if (const std::size_t c = begun - ended; c != 0) {
            sum.add((at - last) * (static_cast<double>(c) * (log2_mass - log2_of[c])));
        }
        last = at;
        ++(begins ? begun : ended);
    }
    return sum.total() / mass;
}

}  // namespace

std::vector<double> blur_widths() {
    std::vector<double> widths;
    for (int j = -24; j <= 4; ++j) {
        const int exponent = j >= 0 ? j / 2 : -((1 - j) / 2);  // floor(j / 2)
        widths.push_back(std::ldexp(j % 2 == 0 ? 1.0 : 1.4142135623730951, exponent));
    }
    return widths;
}

std::vector<double> blurred_entropies(std::span<const double> values,
                                      std::span<const double> widths, int threads) {
    if (values.empty()) throw std::invalid_argument("no value has no entropy; give at least one");
    for (const double w : widths) {
        if (!(w > 0.0 && std::isfinite(w)))
            throw std::invalid_argument("width " + std::to_string(w) +
                                        " of a blur is not positive and finite");
    }
    std::vector<double> sorted(values.begin(), values.end());
    for (const double z : sorted) {
        if (!std::isfinite(z))
            throw std::invalid_argument("value " + std::to_string(z) +
                                        " is not finite; leave such values out");
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<double> log2_of(sorted.size() + 1, 0.0), entropies(widths.size());
    for (std::size_t c = 1; c < log2_of.size(); ++c)
        log2_of[c] = fixed_log2(static_cast<double>(c));
    parallel_for(widths.size(), threads,
                 [&](std::size_t k) { entropies[k] = entropy(sorted, log2_of, widths[k]); });
    return entropies;
}

double rate_limit(std::span<const double> entropies, std::span<const double> widths, double bits) {
    if (widths.empty()) return std::numeric_limits<double>::quiet_NaN();
    double best = 0.0;
    for (std::size_t k = 0; k < widths.size(); ++k) {
        const double power = fixed_exp2(2.0 * (entropies[k] - bits)) / two_pi_e;
        best = std::max(best, power - widths[k] * widths[k] / 12.0);
    }
    return best;
}

std::vector<double> block_squares(std::span<const double> x, std::size_t block) {
    if (block == 0 || block > sum_block)
        throw std::invalid_argument("block=" + std::to_string(block) +
                                    " elements is not between 1 and " + std::to_string(sum_block));
    std::vector<double> sums((x.size() + block - 1) / block);
    for (std::size_t b = 0; b < sums.size(); ++b) {
        const double* first = x.data() + b * block;
        sums[b] = block_sum(std::min(block, x.size() - b * block), [&](std::size_t i) {
            return std::isfinite(first[i]) ? first[i] * first[i] : 0.0;
        });
    }
    return sums;
}

}  // namespace apscope::detail
