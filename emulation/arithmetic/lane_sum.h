// LaneSum computes several sums side by side, one per lane, in any order of additions except
// `exact`. It accepts the terms in blocks and stores the partial sums between blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/arithmetic/register_sum_kernels.h"

namespace apscope::detail {

// The roundings of sums and of products, and the loops for this pair of roundings
// (register_sum_kernels.h).
template <class Real>
struct SumKernels {
    StepCast<Real> sum, product;
    std::size_t lanes = 0;  // number of sums side by side
    void (*accumulate)(Real* sum, const Real* terms, std::size_t stride, std::size_t count,
                       const StepCast<Real>* step) = nullptr;
    void (*accumulate_products)(Real* sum, const Real* a, const Real* b, std::size_t stride,
                                std::size_t count, const StepCast<Real>* product,
                                const StepCast<Real>* step) = nullptr;
    void (*kahan)(Real* sum, Real* lost, const Real* terms, std::size_t stride, std::size_t count,
                  const StepCast<Real>* step) = nullptr;
    void (*add_neighbours)(const Real* terms, Real* out, std::size_t pairs,
                           const StepCast<Real>* step) = nullptr;
    void (*multiply)(const Real* a, const Real* b, Real* out, std::size_t count,
                     const StepCast<Real>* product) = nullptr;
};
// Chooses the loops. `odd` means that fp64 sums are rounded to odd before their step. Both steps
// may be Step::none. `lanes` is many_lanes or few_lanes.
SumKernels<float> sum_kernels(const StepCast<float>& sum, const StepCast<float>& product, bool odd,
                              std::size_t lanes);
SumKernels<double> sum_kernels(const StepCast<double>& sum, const StepCast<double>& product,
                               bool odd, std::size_t lanes);

template <class Real>
class LaneSum {
public:
    using Kind = SumOrder::Kind;

    LaneSum(const SumKernels<Real>& kernels, SumOrder order)
        : kernels_(&kernels), lanes_(kernels.lanes), kind_(order.kind),
          chunk_(order.kind == Kind::chunked ? order.chunk
                                             : std::numeric_limits<std::size_t>::max()),
          // This zero, as the first sum, leaves every addend unchanged.
          nothing_(kernels.sum.down_sign != 0 ? Real(0) : -Real(0)), sum_(lanes_, nothing_) {
        if (kind_ == Kind::chunked) total_.assign(lanes_, nothing_);
        if (kind_ == Kind::kahan) lost_.assign(lanes_, Real(0));
    }

    // Adds `count` rows of terms, one term per lane; the rows are `stride` apart.
    void add(const Real* terms, std::size_t stride, std::size_t count) {
        if (kind_ == Kind::pairwise) return add_pairwise(terms, stride, count);
        if (kind_ == Kind::kahan) return add_kahan(terms, stride, count);
        in_chunks(count, [&](std::size_t first, std::size_t n) {
            kernels_->accumulate(sum_.data(), terms + first * stride, stride, n, &kernels_->sum);
        });
    }
    // Adds the products a[k] * b[k][j] to lane j, each rounded as a product. Orders that need rows
    // of products store them in `scratch`.
    void add_products(const Real* a, const Real* b, std::size_t count, std::vector<Real>& scratch) {
        if (kind_ != Kind::pairwise && kind_ != Kind::kahan) {
            in_chunks(count, [&](std::size_t first, std::size_t n) {
                kernels_->accumulate_products(sum_.data(), a + first, b + first * lanes_, lanes_, n,
                                              &kernels_->product, &kernels_->sum);
            });
            return;
        }
        scratch.resize((count + 1) * lanes_);
        Real* factor = scratch.data() + count * lanes_;
        for (std::size_t k = 0; k < count; ++k) {
            std::fill_n(factor, lanes_, a[k]);
            kernels_->multiply(factor, b + k * lanes_, scratch.data() + k * lanes_, lanes_,
                               &kernels_->product);
        }
        add(scratch.data(), lanes_, count);
    }
    // Returns the sums of all terms, one per lane; there must be at least one term.
    const Real* finish() {
        if (kind_ == Kind::pairwise) return finish_pairwise();
        if (kind_ != Kind::chunked) return sum_.data();
        if (in_chunk_ > 0) end_chunk();
        return total_.data();
    }

private:
    template <class Add>
    void in_chunks(std::size_t count, const Add& add) {
        for (std::size_t first = 0; first < count;) {
            const std::size_t n = std::min(count - first, chunk_ - in_chunk_);
            add(first, n);
            first += n;
            in_chunk_ += n;
            if (in_chunk_ == chunk_) end_chunk();
        }
    }
    void end_chunk() {
        merge(total_.data(), sum_.data());
        std::fill(sum_.begin(), sum_.end(), nothing_);
        in_chunk_ = 0;
    }
    void merge(Real* into, const Real* row) {
        kernels_->accumulate(into, row, lanes_, 1, &kernels_->sum);
    }

    void add_kahan(const Real* terms, std::size_t stride, std::size_t count) {
        if (!begun_ && count > 0) {
            merge(sum_.data(), terms);
            begun_ = true;
            terms += stride;
            --count;
        }
        kernels_->kahan(sum_.data(), lost_.data(), terms, stride, count, &kernels_->sum);
    }

    // A stack has sums of 2^level terms, which are merged like the digits of a binary counter. A
    // complete run of 64 terms is reduced before its sum is put on the stack.
    void add_pairwise(const Real* terms, std::size_t stride, std::size_t count) {
        constexpr std::size_t run = 64;
        while (count > 0) {
            const bool whole = stride == lanes_ && count >= run && taken_ % run == 0;
            const std::size_t n = whole ? run : 1;
            if (stack_.size() < (depth_ + 1) * lanes_) stack_.resize((depth_ + 1) * lanes_);
            if (whole) {
                run_.resize(run / 2 * lanes_);
                kernels_->add_neighbours(terms, run_.data(), run / 2, &kernels_->sum);
                for (std::size_t pairs = run / 4; pairs > 0; pairs /= 2)
                    kernels_->add_neighbours(run_.data(), run_.data(), pairs, &kernels_->sum);
            }
            std::copy_n(whole ? run_.data() : terms, lanes_, level(depth_++));
            taken_ += n;
            for (std::size_t done = taken_ / n; done % 2 == 0; done /= 2) merge_top();
            terms += n * stride;
            count -= n;
        }
    }
    const Real* finish_pairwise() {
        while (depth_ > 1) merge_top();
        if (taken_ > 1) return level(0);
        merge(sum_.data(), level(0));
        return sum_.data();
    }
    void merge_top() {
        --depth_;
        merge(level(depth_ - 1), level(depth_));
    }
    Real* level(std::size_t i) { return stack_.data() + i * lanes_; }

    const SumKernels<Real>* kernels_;
    std::size_t lanes_;
    Kind kind_;
    // Numbers of terms: per chunk, in the current chunk, and in all; depth_ is the number of sums
    // on the stack of add_pairwise().
    std::size_t chunk_, in_chunk_ = 0, taken_ = 0, depth_ = 0;
    bool begun_ = false;  // the first term of Kahan's sums was added
    Real nothing_;        // the zero that leaves every addend unchanged
    std::vector<Real> sum_, total_, lost_, stack_, run_;
};

}  // namespace apscope::detail
