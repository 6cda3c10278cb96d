#include "emulation/schemes/shared/best_constant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

namespace {

// The search tries exponents from s - below to at most s + above, where s is the largest exponent
// with which nothing saturates.
constexpr int below = 2, above = 64;
// The number of exponents that are evaluated together. Reading the gradients and computing the
// noise cost as much as evaluating several exponents.
constexpr int together = 4;
// A relative bound of the rounding errors of the sums.
constexpr double margin = 1e-9;

// Sums over the steps for one scale, from which the figure follows. A smaller figure is better.
struct Figure {
    double log2 = 0.0, nmse = 0.0;
    std::uint64_t blocks = 0, steps = 0, overflow = 0;

    void add(const StepErrors& step) {
        log2 += step.log2_over_noise;
        blocks += step.noise_blocks;
        overflow += step.overflow;
        if (step.squared_reference == 0.0) return;
        nmse += step.squared_error / step.squared_reference;
        ++steps;
    }
    // The figure. It is infinite if there is an overflow, 0 if all references are 0, and the NMSE
    // if the noise is unknown.
    double value(ByFigure by) const {
        if (overflow > 0) return std::numeric_limits<double>::infinity();
        if (by == ByFigure::error_over_noise && blocks > 0)
            return log2 / static_cast<double>(blocks);
        return steps > 0 ? nmse / static_cast<double>(steps) : 0.0;
    }
};

class Search {
public:
    Search(const SelectionInput& input, const FloatEncoder& encoder, ByFigure by)
        : input_(input), encoder_(encoder), by_(by) {}

    int best() {
        double amax = 0.0;
        for (const AgreedStatistics& s : input_.statistics) amax = std::max(amax, s.amax);
        if (amax == 0.0) return 0;
        const int start = largest_that_fits(amax);
        evaluate(start - below, start + together - 1);
        while (!lost_from_here_on() && values_.rbegin()->first < start + above) {
            const int next = values_.rbegin()->first + 1;
            evaluate(next, next + together - 1);
        }
        // Of equal figures, the exponent nearest to `start` comes first.
        const auto before = [&](int a, int b) {
            if (values_[a] != values_[b]) return values_[a] < values_[b];
            return std::abs(a - start) < std::abs(b - start);
        };
        int best = start;
        for (const auto& [exponent, value] : values_)
            if (before(exponent, best)) best = exponent;
        return best;
    }

private:
    // The largest exponent with which nothing saturates: W amax fits into the format and, if sums
    // are rounded to the accumulator, into the accumulator's format.
    int largest_that_fits(double amax) const {
        const auto shift_in = [&](const FloatFormat& format) {
            return ShiftRule{format, Headroom::workers, true}.shift(amax, input_.workers);
        };
        const int format = shift_in(encoder_.grid.format);
        return encoder_.reduction.rounds(input_.ahead->topology(), input_.workers)
                   ? std::min(format, shift_in(encoder_.reduction.accumulate))
                   : format;
    }
    void evaluate(int first, int last) {
        std::vector<Decision> decisions;
        for (int exponent = first; exponent <= last; ++exponent)
            decisions.push_back(power_of_two(exponent));
        std::vector<Figure> figures(decisions.size()), least(decisions.size());
        for (std::size_t step = 0; step < input_.steps; ++step) {
            std::vector<std::size_t> tensors;
            for (std::size_t tensor = 0; tensor < input_.tensors; ++tensor)
                if (input_.is_assigned(step, tensor)) tensors.push_back(tensor);
            const std::vector<ErrorsAhead> errors =
                input_.ahead->errors(step, tensors, encoder_, decisions);
            for (std::size_t d = 0; d < errors.size(); ++d) {
                figures[d].add(errors[d].errors);
                least[d].add(errors[d].least);
            }
        }
        for (std::size_t d = 0; d < figures.size(); ++d)
            values_[first + static_cast<int>(d)] = figures[d].value(by_);
        least_ = least.back().value(by_);
    }
    // True if the largest exponent so far and all larger exponents are worse than the best one: the
    // lower bound of the figure, which rises with the exponent, exceeds the best figure so far.
    bool lost_from_here_on() const {
        double best = std::numeric_limits<double>::infinity();
        for (const auto& [exponent, value] : values_) best = std::min(best, value);
        const double size = std::abs(best) + (by_ == ByFigure::error_over_noise ? 30.0 : 0.0);
        return least_ > best + margin * size;
    }

    const SelectionInput& input_;
    const FloatEncoder& encoder_;
    ByFigure by_;
    std::map<int, double> values_;  // the figure (a mean logarithm or an NMSE) by exponent
    // Lower bound of the figure at the largest exponent so far and at all larger exponents.
    double least_ = 0.0;
};

}  // namespace

Choose choose_best_constant(const FloatEncoder& encoder, ByFigure by) {
    return [encoder, by](const SelectionInput& input, State&) {
        if (input.ahead == nullptr)
            throw std::invalid_argument("scale=best is searched among the results of whole steps, "
                                        "which are not known here; "
                                        "use a number as scale");
        const int exponent = Search(input, encoder, by).best();
        return std::vector<Decision>(input.statistics.size(), power_of_two(exponent));
    };
}

}  // namespace apscope::detail
