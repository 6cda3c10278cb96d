#include "emulation/arithmetic/register_sum.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "emulation/arithmetic/lane_sum.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

template <class Real>
std::optional<SumSteps<Real>> make_sum_steps(const SumOptions& options) {
    const auto sum =
        make_step<Real>(options.accumulate.value_or(options.format), options.projection);
    const auto product =
        options.product ? make_step<Real>(*options.product, options.projection) : StepCast<Real>{};
    if (!sum || !product) return {};
    // A product may be -0 although its format has no -0; then the format of sums must not have a
    // -0.
    if (options.product && product->zero_sign == 0 && sum->zero_sign != 0) return {};
    return SumSteps<Real>{*sum, *product};
}
template std::optional<SumSteps<float>> make_sum_steps(const SumOptions&);
template std::optional<SumSteps<double>> make_sum_steps(const SumOptions&);

namespace {

// The number of terms in a packed block, and the number of rows of sums that use the same block. A
// block of fp64 terms occupies 128 KiB of the second-level cache.
constexpr std::size_t block_terms = 256, block_rows = 32;

// The range of the operands of the additions: terms, rounded or exact products, and partial sums.
ValueRange added_range(const SumOptions& options, bool products, const ValueRange& a,
                       const ValueRange& b) {
    const ValueRange terms = !products         ? a
                             : options.product ? range_of(*options.product)
                                               : product_range(a, b);
    return union_range(terms, range_of(options.accumulate.value_or(options.format)));
}

// Returns whether a hardware sum followed by the rounding equals one rounding.
bool plain_sums_serve(const Hardware& hardware, const SumOptions& options,
                      const ValueRange& added) {
    const ValueRange sums = range_of(options.accumulate.value_or(options.format));
    return sums_are_exact(hardware, added) ||
           (is_nearest(options.projection.rounding) &&
            sum_rounds_twice_safely(hardware, added, sums.precision, sums.quantum));
}

bool sums_run_in_fp32(const SumOptions& options, bool products, const ValueRange& a,
                      const ValueRange& b) {
    const auto steps = make_sum_steps<float>(options);
    if (!steps) return false;
    if (products) {
        // The format of products is fp32 if its step is Step::none.
        const bool exact = holds(fp32_hardware, product_range(a, b)),
                   rounded = options.product.has_value();
        const bool safe =
            rounded &&
            (steps->product.step == Step::none ||
             product_rounds_twice_safely(fp32_hardware, a, b, range_of(*options.product).quantum));
        if (!exact && !safe) return false;
    }
    return steps->sum.step == Step::none ||
           plain_sums_serve(fp32_hardware, options, added_range(options, products, a, b));
}

// An operand of a matrix product, with its strides.
struct Operand {
    const float* data;
    std::size_t along_terms, across;
    float at(std::size_t k, std::size_t i) const { return data[k * along_terms + i * across]; }
};

// Copies terms first .. first + count - 1 of the operand's elements begin .. begin + width - 1 to
// rows of `lanes` numbers; the remaining lanes of a row are zeros.
template <class Real>
void pack(const Operand& from, std::size_t first, std::size_t count, std::size_t begin,
          std::size_t width, std::size_t lanes, Real* block) {
    if (width < lanes) std::fill_n(block, count * lanes, Real(0));
    if (from.across == 1) {
        for (std::size_t k = 0; k < count; ++k)
            std::copy_n(from.data + (first + k) * from.along_terms + begin, width,
                        block + k * lanes);
    } else {
        for (std::size_t j = 0; j < width; ++j) {
            for (std::size_t k = 0; k < count; ++k)
                block[k * lanes + j] = static_cast<Real>(from.at(first + k, begin + j));
        }
    }
}

template <class Real>
void write(LaneSum<Real>& sums, const StepCast<Real>& step, std::size_t width, float* out,
           std::size_t across) {
    const Real* sum = sums.finish();
    for (std::size_t j = 0; j < width; ++j)
        out[j * across] = static_cast<float>(canonicalize_nan_and_zero(sum[j], step.zero_sign));
}

// Computes a part of a matrix product. `wide` is the operand whose elements are side by side in the
// lanes of registers.
template <class Real>
struct MatrixJob {
    const SumKernels<Real>& kernels;
    SumOrder order;
    std::size_t terms;

    void run(const Operand& narrow, std::size_t first_row, std::size_t rows, const Operand& wide,
             std::size_t begin, std::size_t width, float* out, std::size_t down,
             std::size_t across) const {
        const std::size_t lanes = kernels.lanes;
        std::vector<LaneSum<Real>> sums(rows, LaneSum<Real>(kernels, order));
        std::vector<Real> block(std::min(block_terms, terms) * lanes),
            factors(std::min(block_terms, terms)), scratch;
        for (std::size_t first = 0; first < terms; first += block_terms) {
            const std::size_t count = std::min(block_terms, terms - first);
            pack(wide, first, count, begin, width, lanes, block.data());
            for (std::size_t i = 0; i < rows; ++i) {
                for (std::size_t k = 0; k < count; ++k)
                    factors[k] = static_cast<Real>(narrow.at(first + k, first_row + i));
                sums[i].add_products(factors.data(), block.data(), count, scratch);
            }
        }
        for (std::size_t i = 0; i < rows; ++i)
            write(sums[i], kernels.sum, width, out + (first_row + i) * down + begin * across,
                  across);
    }
};

template <class Real>
void multiply_matrices(const SumKernels<Real>& kernels, std::span<const float> a,
                       std::span<const float> b, std::size_t batches, std::size_t rows,
                       std::size_t columns, std::size_t terms, std::span<float> out,
                       const SumOptions& options) {
    // With few columns, one lane computes one row instead of one column, because most lanes would
    // be empty.
    const bool by_rows = columns < many_lanes && rows > columns;
    const std::size_t lanes = kernels.lanes;
    const std::size_t narrow = by_rows ? columns : rows, wide = by_rows ? rows : columns;
    const std::size_t row_blocks = (narrow + block_rows - 1) / block_rows,
                      panels = (wide + lanes - 1) / lanes;
    const MatrixJob<Real> job{kernels, options.order, terms};
    const auto multiply_block = [&](std::size_t item) {
        const std::size_t batch = item / (row_blocks * panels),
                          row = item / panels % row_blocks * block_rows,
                          begin = item % panels * lanes;
        const Operand left{a.data() + batch * rows * terms, 1, terms},
            right{b.data() + batch * terms * columns, columns, 1};
        job.run(by_rows ? right : left, row, std::min(block_rows, narrow - row),
                by_rows ? left : right, begin, std::min(lanes, wide - begin),
                out.data() + batch * rows * columns, by_rows ? 1 : columns, by_rows ? columns : 1);
    };
    parallel_pieces(batches * row_blocks * panels, options.threads, multiply_block,
                    std::min(block_rows, narrow) * lanes * terms);
}

// Computes the sums of the columns of x or, if y is not empty, of the products of x and y.
template <class Real>
void sum_columns(const SumKernels<Real>& kernels, std::span<const float> x,
                 std::span<const float> y, std::size_t terms, std::span<float> out,
                 const SumOptions& options) {
    const std::size_t n = out.size(), lanes = kernels.lanes, panels = (n + lanes - 1) / lanes;
    const auto sum_panel = [&](std::size_t panel) {
        const std::size_t begin = panel * lanes, width = std::min(lanes, n - begin);
        LaneSum<Real> sums(kernels, options.order);
        std::vector<Real> block(std::min(block_terms, terms) * lanes),
            other(y.empty() ? 0 : block.size());
        for (std::size_t first = 0; first < terms; first += block_terms) {
            const std::size_t count = std::min(block_terms, terms - first);
            pack(Operand{x.data(), n, 1}, first, count, begin, width, lanes, block.data());
            if (!y.empty()) {
                pack(Operand{y.data(), n, 1}, first, count, begin, width, lanes, other.data());
                kernels.multiply(block.data(), other.data(), block.data(), count * lanes,
                                 &kernels.product);
            }
            sums.add(block.data(), lanes, count);
        }
        write(sums, kernels.sum, width, out.data() + begin, 1);
    };
    parallel_pieces(panels, options.threads, sum_panel, lanes * terms);
}

// Calls compute(kernels) and returns true if the path of the sums uses registers. `side_by_side` is
// the number of sums that can be computed in one register.
template <class Compute>
bool with_kernels(const SumOptions& options, bool products, std::span<const float> a,
                  std::span<const float> b, std::size_t side_by_side, const Compute& compute) {
    if (!options.registers) return false;
    const auto fp64 = make_sum_steps<double>(options);
    if (!fp64 || options.order.kind == SumOrder::Kind::exact) return false;
    // If the fp32 path is not possible for all fp32 numbers, it may be possible for the numbers of
    // a and b.
    const ValueRange any = range_of(make_format(8, 23));
    SumPath path = sum_path(options, products, any, any);
    if (path != SumPath::fp32) path = sum_path(options, products, range_of(a), range_of(b));
    if (path == SumPath::general) return false;
    const std::size_t lanes = side_by_side <= few_lanes ? few_lanes : many_lanes;
    if (path == SumPath::fp32) {
        const auto fp32 = make_sum_steps<float>(options);
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): sums_run_in_fp32() has tested fp32
        compute(sum_kernels(fp32->sum, fp32->product, false, lanes));
    } else {
        compute(sum_kernels(fp64->sum, fp64->product, path == SumPath::fp64_odd, lanes));
    }
    return true;
}

}  // namespace

std::string_view to_string(SumPath path) {
    constexpr std::array<std::string_view, 4> names = {"fp32", "fp64", "fp64_odd", "general"};
    return names[static_cast<std::size_t>(path)];
}

SumPath sum_path(const SumOptions& options, bool products, const ValueRange& a,
                 const ValueRange& b) {
    if (options.order.kind == SumOrder::Kind::exact || !make_sum_steps<double>(options))
        return SumPath::general;
    if (sums_run_in_fp32(options, products, a, b)) return SumPath::fp32;
    return plain_sums_serve(fp64_hardware, options, added_range(options, products, a, b))
               ? SumPath::fp64
               : SumPath::fp64_odd;
}

bool register_sum(std::span<const float> x, std::size_t terms, std::span<float> out,
                  const SumOptions& options) {
    return with_kernels(options, false, x, {}, out.size(), [&](const auto& kernels) {
        sum_columns(kernels, x, {}, terms, out, options);
    });
}
bool register_dot(std::span<const float> a, std::span<const float> b, std::size_t terms,
                  std::span<float> out, const SumOptions& options) {
    return with_kernels(options, true, a, b, out.size(), [&](const auto& kernels) {
        sum_columns(kernels, a, b, terms, out, options);
    });
}
bool register_matmul(std::span<const float> a, std::span<const float> b, std::size_t batches,
                     std::size_t rows, std::size_t terms, std::span<float> out,
                     const SumOptions& options) {
    const std::size_t columns = out.size() / (batches * rows);
    return with_kernels(options, true, a, b, std::max(rows, columns), [&](const auto& kernels) {
        multiply_matrices(kernels, a, b, batches, rows, columns, terms, out, options);
    });
}

}  // namespace apscope::detail
