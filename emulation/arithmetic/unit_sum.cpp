#include "emulation/arithmetic/unit_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "core/parse.h"
#include "emulation/arithmetic/unit_chains.h"
#include "emulation/arithmetic/unit_operands.h"
#include "emulation/arithmetic/unit_sum_kernel.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

constexpr std::size_t row_block = 64, panel_lanes = 32, absent = ~std::size_t{0};

// The terms in the order in which the unit adds them: every instruction's products, of which an
// incomplete instruction has absent ones, which are zeros.
struct TermPlaces {
    UnitChains chains;
    std::vector<std::size_t> terms;
    std::vector<std::size_t> starts;  // the chains' first places

    TermPlaces(const MatrixUnitOrder& order, std::size_t count)
        : chains{count, order.promote, order.split} {
        const auto size = static_cast<std::size_t>(order.unit.instruction());
        for (std::size_t chain = 0; chain < chains.count(); ++chain) {
            starts.push_back(terms.size());
            const std::size_t end = chains.first(chain + 1);
            for (std::size_t first = chains.first(chain); first < end; first += size) {
                for (std::size_t place = 0; place < size; ++place) {
                    const std::size_t k =
                        first +
                        static_cast<std::size_t>(order.unit.product_at(static_cast<int>(place)));
                    terms.push_back(k < end ? k : absent);
                }
            }
        }
    }
    // The places of the instructions of the terms first .. end - 1.
    struct Range {
        std::size_t first, count;
    };
    Range range(std::size_t chain, std::size_t first, std::size_t end,
                const MatrixUnit& unit) const {
        const auto size = static_cast<std::size_t>(unit.instruction());
        return {starts[chain] + first - chains.first(chain),
                (end - first + size - 1) / size * size};
    }
};

class UnitMatmul {
public:
    UnitMatmul(std::span<const float> a, std::span<const float> b, std::span<float> out,
               const UnitProduct& sizes, const MatrixUnitOrder& order,
               const UnitScales<float>& scales, int threads)
        : a_(a), b_(b), out_(out), sizes_(sizes), unit_(order.unit), scales_(scales),
          smallest_scale_(order.scales.empty() ? 0 : parse_format(order.scales).emin()),
          places_(order, sizes.terms), smallest_a_(unit_operand_exponent(a, order, 0, threads)),
          smallest_b_(unit_operand_exponent(b, order, 1, threads)), threads_(threads) {}

    bool kernel_serves() const {
        if (!unit_kernel_serves(unit_) || unit_.flush) return false;
        const NumberRange a = range_of(a_), b = range_of(b_), c = range_of(out_),
                          of_a = range_of(scales_.a), of_b = range_of(scales_.b);
        const bool finite = a.is_finite() && b.is_finite() && of_a.is_finite() && of_b.is_finite();
        return finite && a.significant_bits() + b.significant_bits() <= 24 &&
               exponents_fit(exponents(a, smallest_a_, of_a), exponents(b, smallest_b_, of_b)) &&
               addends_fit(c);
    }

    void run_kernel() {
        if (unit_.rule == MatrixUnit::Rule::grouped) run_grouped();
        else if (block_fits_int32(unit_)) run_aligned<std::int32_t>();
        else run_aligned<double>();
    }

    // The rule for every output.
    void run_rule() {
        run(1, [&](std::size_t batch, std::size_t row, std::size_t rows, std::size_t column,
                   std::size_t) {
            const std::size_t count = places_.terms.size();
            std::vector<UnitNumber> a(count), b(count);
            for (std::size_t k = 0; k < count; ++k) b[k] = at_b(batch, column, k);
            for (std::size_t i = row; i < row + rows; ++i) {
                for (std::size_t k = 0; k < count; ++k) a[k] = at_a(batch, i, k);
                const auto block = static_cast<std::size_t>(unit_.block);
                add_chains<1>(places_.chains, unit_, out_.data() + place(batch, i, column),
                              [&](std::size_t chain, std::size_t first, std::size_t end, float* c) {
                                  const auto [at, size] = places_.range(chain, first, end, unit_);
                                  for (std::size_t k = at; k < at + size; k += block)
                                      *c = add_block(unit_, &a[k], &b[k], unit_.block, *c);
                              });
            }
        });
    }

private:
    static NumberRange range_of(std::span<const float> x) {
        NumberRange range;
        simd::run<FindNumberRange>(x.data(), x.size(), &range);
        return range;
    }
    // Those that the rule takes: of numbers other than 0 and of their scales; of FP4, of scales.
    ExponentRange exponents(const NumberRange& numbers, int smallest,
                            const NumberRange& scales) const {
        const ExponentRange own = ExponentRange::of(numbers, smallest);
        if (unit_.scaled == 0) return own;
        const ExponentRange scale = ExponentRange::of(scales, smallest_scale_);
        if (unit_.rule == MatrixUnit::Rule::grouped) return scale;
        return {own.least + scale.least, own.most + scale.most};
    }
    bool exponents_fit(const ExponentRange& a, const ExponentRange& b) const {
        // A product is below 4 times the power of two of its exponent. Sixteen of FP4's have one
        // exponent, and add up to less than 2^12 times its power of two: 2^6 times as much each.
        const int most = unit_.rule == MatrixUnit::Rule::grouped ? 84 : 90;
        if (!products_fit(a, b, most)) return false;
        // Scaled numbers are fp32 numbers too.
        return unit_.scaled == 0 ||
               (std::min(a.least, b.least) >= -100 && std::max(a.most, b.most) <= 100);
    }

    // Packs rows of a, and panels of b with the columns of a panel side by side; then add(row,
    // panel, place, count, c) adds the terms from a place on to a panel's outputs of a row.
    template <class PackRow, class PackPanel, class Add>
    void run_panels(const PackRow& pack_row, const PackPanel& pack_panel, const Add& add) {
        const std::size_t count = places_.terms.size(), panels = this->panels();
        parallel_pieces(sizes_.batches * sizes_.rows, threads_, pack_row, count);
        parallel_pieces(sizes_.batches * panels, threads_, pack_panel, count * panel_lanes);
        run(panel_lanes, [&](std::size_t batch, std::size_t row, std::size_t rows,
                             std::size_t column, std::size_t columns) {
            const std::size_t panel = batch * panels + column / panel_lanes;
            for (std::size_t i = row; i < row + rows; ++i) {
                float carry[panel_lanes] = {};
                float* const results = out_.data() + place(batch, i, column);
                std::copy_n(results, columns, carry);
                add_chains<panel_lanes>(
                    places_.chains, unit_, carry,
                    [&](std::size_t chain, std::size_t first, std::size_t end, float* c) {
                        const auto [at, size] = places_.range(chain, first, end, unit_);
                        add(batch * sizes_.rows + i, panel, at, size, c);
                    });
                std::copy_n(carry, columns, results);
            }
        });
    }
    std::size_t panels() const { return (sizes_.columns + panel_lanes - 1) / panel_lanes; }
    // Calls f(place, number, scale) for the terms of a row of a; the scale is 1 without scales.
    template <class F>
    void for_row(std::size_t row, const F& f) const {
        const float* const from =
            a_.data() + row / sizes_.rows * sizes_.a.batch + row % sizes_.rows * sizes_.a.outer;
        for (std::size_t k = 0; k < places_.terms.size(); ++k)
            if (const std::size_t term = places_.terms[k]; term != absent)
                f(k, from[term * sizes_.a.term], scale(scales_.a, row, term, 0, 1));
    }
    // Likewise f(place, lane, number, scale) for a panel of b.
    template <class F>
    void for_panel(std::size_t panel, const F& f) const {
        const std::size_t batch = panel / panels(), column = panel % panels() * panel_lanes,
                          width = std::min(panel_lanes, sizes_.columns - column);
        const float* const from = b_.data() + batch * sizes_.b.batch + column * sizes_.b.outer;
        for (std::size_t k = 0; k < places_.terms.size(); ++k)
            if (const std::size_t term = places_.terms[k]; term != absent)
                for (std::size_t j = 0; j < width; ++j)
                    f(k, j, from[term * sizes_.b.term + j * sizes_.b.outer],
                      scale(scales_.b, batch, term, column + j, sizes_.columns));
    }

    // NVIDIA's rule.
    template <class Sum>
    void run_aligned() {
        struct Packed {
            std::vector<float> values;
            std::vector<std::int16_t> exponents;
            explicit Packed(std::size_t size) : values(size), exponents(size) {}
            // The exponents of elements; of scaled ones, those of the scales added.
            void finish(std::size_t first, std::size_t count, int smallest, int bias,
                        std::span<const float> scales) {
                simd::run<OperandExponents>(values.data() + first, count, smallest, bias,
                                            exponents.data() + first);
                for (std::size_t i = 0; i < scales.size(); ++i) {
                    values[first + i] *= scales[i];
                    exponents[first + i] =
                        static_cast<std::int16_t>(exponents[first + i] + std::ilogb(scales[i]));
                }
            }
        };
        const std::size_t count = places_.terms.size(), size = count * panel_lanes;
        Packed a(sizes_.batches * sizes_.rows * count), b(sizes_.batches * panels() * size);
        run_panels(
            [&](std::size_t row) {
                std::vector<float> scales(unit_.scaled == 0 ? 0 : count, 1.0f);
                for_row(row, [&](std::size_t k, float x, float scale) {
                    a.values[row * count + k] = x;
                    if (!scales.empty()) scales[k] = scale;
                });
                a.finish(row * count, count, smallest_a_, exponent_bias, scales);
            },
            [&](std::size_t panel) {
                std::vector<float> scales(unit_.scaled == 0 ? 0 : size, 1.0f);
                for_panel(panel, [&](std::size_t k, std::size_t j, float x, float scale) {
                    b.values[panel * size + k * panel_lanes + j] = x;
                    if (!scales.empty()) scales[k * panel_lanes + j] = scale;
                });
                b.finish(panel * size, size, smallest_b_, 0, scales);
            },
            [&](std::size_t row, std::size_t panel, std::size_t at, std::size_t terms, float* c) {
                const std::size_t of_a = row * count + at, of_b = panel * size + at * panel_lanes;
                simd::run<AddUnitBlocks<panel_lanes, Sum>>(&a.values[of_a], &a.exponents[of_a],
                                                           &b.values[of_b], &b.exponents[of_b],
                                                           terms, c, &unit_);
            });
    }

    // The rule of FP4: elements in halves, and a scale for every group of products.
    void run_grouped() {
        struct Packed {
            std::vector<std::int16_t> halves;
            std::vector<float> significands;
            std::vector<std::int16_t> exponents;
            Packed(std::size_t size)
                : halves(size), significands(size / products_of_group),
                  exponents(size / products_of_group, zero_operand) {}
            void set(std::size_t i, std::size_t group, float x, float scale, int smallest) {
                halves[i] = static_cast<std::int16_t>(2 * x);
                if (scale == 0) return;
                const int exponent = std::max(std::ilogb(scale), smallest);
                significands[group] = std::ldexp(scale, -exponent);
                exponents[group] = static_cast<std::int16_t>(exponent);
            }
        };
        const std::size_t count = places_.terms.size(), size = count * panel_lanes,
                          groups = count / products_of_group;
        Packed a(sizes_.batches * sizes_.rows * count), b(sizes_.batches * panels() * size);
        run_panels(
            [&](std::size_t row) {
                for_row(row, [&](std::size_t k, float x, float scale) {
                    a.set(row * count + k, row * groups + k / products_of_group, x, scale,
                          smallest_scale_);
                });
            },
            [&](std::size_t panel) {
                for_panel(panel, [&](std::size_t k, std::size_t j, float x, float scale) {
                    b.set(panel * size + k * panel_lanes + j,
                          (panel * groups + k / products_of_group) * panel_lanes + j, x, scale,
                          smallest_scale_);
                });
            },
            [&](std::size_t row, std::size_t panel, std::size_t at, std::size_t terms, float* c) {
                const std::size_t of_a = row * groups + at / products_of_group,
                                  of_b = (panel * groups + at / products_of_group) * panel_lanes;
                simd::run<AddGroupedBlocks<panel_lanes>>(
                    &a.halves[row * count + at], &a.significands[of_a], &a.exponents[of_a],
                    &b.halves[panel * size + at * panel_lanes], &b.significands[of_b],
                    &b.exponents[of_b], terms, c, &unit_);
            });
    }

    template <class Work>
    void run(std::size_t lanes, const Work& work) {
        const std::size_t row_blocks = (sizes_.rows + row_block - 1) / row_block,
                          panels = (sizes_.columns + lanes - 1) / lanes;
        parallel_pieces(
            sizes_.batches * row_blocks * panels, threads_,
            [&](std::size_t item) {
                const std::size_t row = item / panels % row_blocks * row_block,
                                  column = item % panels * lanes;
                work(item / panels / row_blocks, row, std::min(row_block, sizes_.rows - row),
                     column, std::min(lanes, sizes_.columns - column));
            },
            std::min(row_block, sizes_.rows) * lanes * sizes_.terms);
    }
    std::size_t place(std::size_t batch, std::size_t row, std::size_t column) const {
        return (batch * sizes_.rows + row) * sizes_.columns + column;
    }
    UnitNumber number(std::span<const float> x, const UnitProduct::Strides& strides,
                      std::size_t batch, std::size_t outer, std::size_t k, int smallest) const {
        if (places_.terms[k] == absent) return {};
        return unit_operand(
            x[batch * strides.batch + outer * strides.outer + places_.terms[k] * strides.term],
            smallest, unit_);
    }
    // The scale of a term, which lies at (first, piece, second); 1 without scales.
    float scale(std::span<const float> scales, std::size_t first, std::size_t term,
                std::size_t second, std::size_t columns) const {
        if (unit_.scaled == 0) return 1;
        const auto size = static_cast<std::size_t>(unit_.scaled),
                   pieces = (sizes_.terms + size - 1) / size;
        return scales[(first * pieces + term / size) * columns + second];
    }
    UnitNumber scaled(const UnitNumber& number, std::span<const float> scales, std::size_t first,
                      std::size_t k, std::size_t second, std::size_t columns) const {
        if (unit_.scaled == 0 || places_.terms[k] == absent) return number;
        return scaled_operand(number, scale(scales, first, places_.terms[k], second, columns),
                              smallest_scale_, unit_);
    }
    UnitNumber at_a(std::size_t batch, std::size_t row, std::size_t k) const {
        return scaled(number(a_, sizes_.a, batch, row, k, smallest_a_), scales_.a,
                      batch * sizes_.rows + row, k, 0, 1);
    }
    UnitNumber at_b(std::size_t batch, std::size_t column, std::size_t k) const {
        return scaled(number(b_, sizes_.b, batch, column, k, smallest_b_), scales_.b, batch, k,
                      column, sizes_.columns);
    }
    std::span<const float> a_, b_;
    std::span<float> out_;
    const UnitProduct& sizes_;
    MatrixUnit unit_;
    UnitScales<float> scales_;
    int smallest_scale_;
    TermPlaces places_;
    int smallest_a_, smallest_b_, threads_;
};

}  // namespace

bool unit_product(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                  std::span<float> out, const UnitProduct& sizes, const MatrixUnitOrder& order,
                  int threads, const UnitScales<float>& scales, bool fast) {
    if (!c.empty() && c.size() != out.size())
        throw std::invalid_argument("c has " + std::to_string(c.size()) + " elements, not " +
                                    std::to_string(out.size()));
    check_unit_scales(scales, order, sizes.batches, sizes.rows, sizes.terms, sizes.columns);
    UnitMatmul product(a, b, out, sizes, order, scales, threads);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = c.empty() ? 0.0f : unit_addend(c[i], order.unit);
    if (out.empty()) return false;
    fast = fast && product.kernel_serves();
    if (fast) product.run_kernel();
    else product.run_rule();
    for (float& result : out)
        if (std::isnan(result)) result = bits_cast<float>(std::uint32_t{0x7FFFFFFF});
    return fast;
}

}  // namespace apscope::detail
