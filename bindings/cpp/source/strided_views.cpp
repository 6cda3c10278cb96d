// Rounds arrays of any layout: rows of their last axis are gathered in a buffer, rounded there and
// scattered.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cpp/apscope/quantizer.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/overlap.h"
#include "core/error.h"
#include "core/sizes.h"
#include "emulation/machine/parallel.h"

namespace apscope {
namespace {

template <class Real>
std::size_t size_of(const StridedView<Real>& view) {
    if (view.shape.size() != view.strides.size()) {
        throw error("a view has " + std::to_string(view.shape.size()) + " sizes and " +
                    std::to_string(view.strides.size()) + " strides; give one stride per axis");
    }
    const std::size_t size = detail::checked_size(view.shape, "the shape of a view");
    if (view.data != nullptr || size == 0) return size;
    if (view.shape.empty()) return 0;  // a default view
    throw error("a view of " + std::to_string(size) +
                " elements has no data; give a pointer to the first");
}

// The axes of more than one element, with their strides.
template <class Real>
std::vector<std::pair<std::size_t, std::ptrdiff_t>> axes_of(const StridedView<Real>& view) {
    std::vector<std::pair<std::size_t, std::ptrdiff_t>> axes;
    for (std::size_t i = 0; i < view.shape.size(); ++i)
        if (view.shape[i] != 1) axes.emplace_back(view.shape[i], view.strides[i]);
    return axes;
}

// True if the elements lie side by side in C order.
template <class Real>
bool is_contiguous(const StridedView<Real>& view) {
    std::size_t behind = 1;
    const auto axes = axes_of(view);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        if (std::cmp_not_equal(axis->second, behind)) return false;
        behind *= axis->first;
    }
    return true;
}

// True if it is certain that no two elements share memory: with the axes sorted by their strides,
// the stride of each axis exceeds the extent of all axes before it.
template <class Real>
bool is_injective(const StridedView<Real>& view) {
    auto axes = axes_of(view);
    std::ranges::sort(axes, {}, [](const auto& axis) { return std::abs(axis.second); });
    std::size_t extent = 0;  // the distance of the last element from the first
    for (const auto& [length, stride] : axes) {
        const auto step = static_cast<std::size_t>(std::abs(stride));
        if (step <= extent) return false;
        extent += (length - 1) * step;
    }
    return true;
}

// The memory between the lowest and the highest element of a view with elements.
template <class Real>
std::span<Real> memory_of(const StridedView<Real>& view) {
    std::ptrdiff_t low = 0, high = 0;
    for (const auto& [length, stride] : axes_of(view))
        (stride < 0 ? low : high) += static_cast<std::ptrdiff_t>(length - 1) * stride;
    return {view.data + low, static_cast<std::size_t>(high - low) + 1};
}

// Visits the elements of a view in C order, beginning with the given one.
template <class Real>
class Places {
public:
    Places(const StridedView<Real>& view, std::size_t element)
        : view_(view), index_(view.shape.size()), at_(view.data) {
        for (std::size_t axis = index_.size(); axis-- > 0;) {
            index_[axis] = element % view.shape[axis];
            element /= view.shape[axis];
            at_ += static_cast<std::ptrdiff_t>(index_[axis]) * view.strides[axis];
        }
    }
    // Calls visit(first element, stride, count) for the next `count` elements, a row at a time.
    template <class Visit>
    void rows(std::size_t count, const Visit& visit) {
        if (index_.empty()) return visit(at_, std::ptrdiff_t{1}, count);
        const std::size_t last = index_.size() - 1;
        while (count > 0) {
            const std::size_t row = std::min(count, view_.shape[last] - index_[last]);
            visit(at_, view_.strides[last], row);
            count -= row;
            index_[last] += row;
            at_ += static_cast<std::ptrdiff_t>(row) * view_.strides[last];
            carry();
        }
    }

private:
    void carry() {
        for (std::size_t axis = index_.size(); axis-- > 0 && index_[axis] == view_.shape[axis];) {
            at_ -= static_cast<std::ptrdiff_t>(view_.shape[axis]) * view_.strides[axis];
            index_[axis] = 0;
            if (axis == 0) break;
            ++index_[axis - 1];
            at_ += view_.strides[axis - 1];
        }
    }

    StridedView<Real> view_;
    std::vector<std::size_t> index_;
    Real* at_;
};

template <class Real>
void gather(const StridedView<const Real>& view, std::size_t first, std::span<Real> values) {
    Real* to = values.data();
    Places<const Real>(view, first)
        .rows(values.size(), [&](const Real* from, std::ptrdiff_t stride, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i)
                to[i] = from[static_cast<std::ptrdiff_t>(i) * stride];
            to += count;
        });
}

template <class Real>
void scatter(std::span<const Real> values, const StridedView<Real>& view, std::size_t first) {
    const Real* from = values.data();
    Places<Real>(view, first)
        .rows(values.size(), [&](Real* to, std::ptrdiff_t stride, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i)
                to[static_cast<std::ptrdiff_t>(i) * stride] = from[i];
            from += count;
        });
}

template <class Real>
void quantize_view(const Quantizer& q, const StridedView<const Real>& in,
                   const StridedView<Real>& out) try {
    const std::size_t size = size_of(in);
    if (size_of(out) != size || !std::ranges::equal(in.shape, out.shape))
        throw error("the views have different shapes; they must agree");
    if (size == 0) return;
    const bool same = in.data == out.data && std::ranges::equal(in.strides, out.strides),
               injective = is_injective(out),
               copies = !(same && injective) && overlap(memory_of(in), memory_of(out));
    if (is_contiguous(in) && is_contiguous(out) && !copies)
        return q(std::span(in.data, size), std::span(out.data, size));
    if (copies) {
        std::vector<Real> all(size);
        gather(in, 0, std::span(all));
        q(all, all);
        return scatter(std::span<const Real>(all), out, 0);
    }
    // The pieces of an output whose elements share memory are written in order, by one thread.
    constexpr std::size_t piece = 4096;
    detail::parallel_pieces(size / piece + (size % piece != 0), injective ? q.threads() : 1,
                            [&](std::size_t p) {
                                Real values[piece];
                                const std::size_t first = p * piece;
                                const std::span<Real> row(values, std::min(piece, size - first));
                                gather(in, first, row);
                                q(row, row, first);
                                scatter(std::span<const Real>(row), out, first);
                            });
} catch (...) {
    detail::throw_error();
}

}  // namespace

void Quantizer::operator()(const StridedView<const float>& in,
                           const StridedView<float>& out) const {
    quantize_view(*this, in, out);
}
void Quantizer::operator()(const StridedView<const double>& in,
                           const StridedView<double>& out) const {
    quantize_view(*this, in, out);
}

}  // namespace apscope
