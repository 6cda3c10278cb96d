#include "analysis/statistics/block_account.h"

#include "emulation/machine/divide.h"

namespace apscope::detail {

void BlockAccount::start(std::size_t count, double divisor, std::span<const double> noise,
                         bool splits) {
    count_ = count;
    divisor_ = divisor;
    noise_ = noise;
    splits_ = splits;
    classed_ = false;
    exact_ = nullptr;
}

void BlockAccount::end_sent() {
    if (!classed_ || divisor_ == 1.0) return;
    for (Buffer<double>* row : {&lost_, &clipped_})
        simd::run<DivideRow>(row->data(), divisor_, count_);
}

void BlockAccount::add_result(ErrorStatistics& total, std::span<const double> reference,
                              std::span<const double> y, bool is_exact,
                              const ResultMoments& moments, const FloatScale* scale,
                              const ReferenceSums* known) {
    if (exact_ == nullptr) exact_ = y.data();
    ErrorStatistics found;
    found.moments_defined = moments.defined;
    found.add_block<double>(reference, y, scale, moments.bias, moments.variance, known);
    if (splits_ && is_exact && !classed_) {
        found.split.sums[ErrorSplit::rounding] = found.sums[ErrorStatistics::squared_error];
    } else if (splits_) {
        const auto split = [&]<bool Classed>() {
            simd::run<SplitReduced<Classed>>(reference.data(), exact_, y.data(), lost_.data(),
                                             clipped_.data(), count_, &found.split);
        };
        classed_ ? split.template operator()<true>() : split.template operator()<false>();
    }
    if (!noise_.empty()) found.over_noise.add(reference, y, noise_);
    total.merge(found);
}

void BlockAccount::add_skipped(ErrorStatistics& total, std::span<const double> reference) const {
    total.add_block<double>(reference, reference, nullptr, {}, {});
    if (!noise_.empty()) total.over_noise.add_lost(reference, noise_);
}

}  // namespace apscope::detail
