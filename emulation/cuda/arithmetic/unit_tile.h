// Matrix products by NVIDIA's rule of a matrix unit, a tile of outputs per thread, in the
// arithmetic of emulation/arithmetic/unit_fp32.h. A block of products is read twice: for the
// largest exponent, then for the products. UnitStep serves all other units and operands.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulation/arithmetic/unit_chains.h"
#include "emulation/arithmetic/unit_fp32.h"
#include "emulation/cuda/arithmetic/tile_grid.h"

namespace apscope::detail {

// Sum is std::int32_t if the products of a block, and C, fit; otherwise double, to which groups of
// products are added.
template <int Rows, class Sum>
struct UnitTile {
    static constexpr int across = TileGrid<Rows>::tile_columns, outputs = Rows * across;

    const float *a, *b;
    const float* c;  // of the shape of `out`, or null for +0
    float* out;
    std::uint64_t terms;
    TileGrid<Rows> grid;
    MatrixUnit unit;
    UnitChains chains;
    int smallest_a, smallest_b;  // exponents of the formats' smallest normal numbers

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        const auto place = grid.place(i);
        if (place.down == 0) return;
        const TileOperands<Rows> operands(grid, place, a, b, terms);
        float results[outputs] = {};
        for (int o = 0; o < outputs && c != nullptr; ++o)
            if (place.has(o / across, o % across))
                results[o] = unit_addend(c[grid.index(place, o / across, o % across)], unit);
        add_chains<outputs>(chains, unit, results,
                            [&](std::uint64_t, std::uint64_t first, std::uint64_t end,
                                float* carry) { add_blocks(operands, first, end, carry); });
        for (int o = 0; o < outputs; ++o)
            if (place.has(o / across, o % across))
                out[grid.index(place, o / across, o % across)] = results[o];
    }

private:
    // Adds the terms first .. end - 1, which begin an instruction.
    APSCOPE_HD void add_blocks(const TileOperands<Rows>& operands, std::uint64_t first,
                               std::uint64_t end, float* carry) const {
        float sums[outputs];
        for (int o = 0; o < outputs; ++o) sums[o] = carry[o];
        const int instruction = unit.instruction();
        for (; first < end; first += static_cast<std::uint64_t>(instruction))
            for (int place = 0; place < instruction; place += unit.block)
                add_block(operands, first, end, place, sums);
        for (int o = 0; o < outputs; ++o) carry[o] = sums[o];
    }
    // Calls f(x, y) with the operands of a block's products k .. last - 1 that are not absent.
    template <class F>
    APSCOPE_HD void for_products(const TileOperands<Rows>& operands, std::uint64_t first,
                                 std::uint64_t end, int k, int last, const F& f) const {
        for (; k < last; ++k) {
            const std::uint64_t term = first + static_cast<std::uint64_t>(unit.product_at(k));
            if (term >= end) continue;
            const auto y = operands.of_columns(term);
            float x[Rows];
            for (int r = 0; r < Rows; ++r) x[r] = operands.left[r][term];
            f(x, y.at);
        }
    }
    APSCOPE_HD void add_block(const TileOperands<Rows>& operands, std::uint64_t first,
                              std::uint64_t end, int place, float (&c)[outputs]) const {
        std::int32_t top[outputs];
        for (std::int32_t& e : top) e = no_product;
        const int past = place + unit.block;
        for_products(operands, first, end, place, past, [&](const auto& x, const auto& y) {
            std::int32_t of_y[across];
            for (int j = 0; j < across; ++j) of_y[j] = operand_exponent(y[j], smallest_b, 0);
            for (int r = 0; r < Rows; ++r) {
                const std::int32_t of_x = operand_exponent(x[r], smallest_a, exponent_bias);
                for (int j = 0; j < across; ++j) {
                    const std::int32_t e = of_x + of_y[j];
                    top[r * across + j] = e > top[r * across + j] ? e : top[r * across + j];
                }
            }
        });
        float factor[outputs];
        Sum sum[outputs];
        for (int o = 0; o < outputs; ++o) {
            factor[o] = block_factor(top[o], c[o], unit.fraction);
            sum[o] = static_cast<Sum>(static_cast<std::int32_t>(c[o] * factor[o]));
        }
        const int group = std::is_same_v<Sum, double> ? terms_of_group(unit) : unit.block;
        for (int k = place; k < past; k += group) {
            std::int32_t part[outputs] = {};
            for_products(operands, first, end, k, k + group < past ? k + group : past,
                         [&](const auto& x, const auto& y) {
                             for (int r = 0; r < Rows; ++r)
                                 for (int j = 0; j < across; ++j)
                                     part[r * across + j] += static_cast<std::int32_t>(
                                         x[r] * y[j] * factor[r * across + j]);
                         });
            for (int o = 0; o < outputs; ++o) sum[o] += static_cast<Sum>(part[o]);
        }
        const std::uint32_t kept = kept_bits(unit);
        for (int o = 0; o < outputs; ++o) c[o] = cut_sum(sum[o], kept) * inverse_power(factor[o]);
    }
};

// Finds the range of numbers: *inverse_least is the largest of the inverted magnitudes other than
// 0, 0 if there is none.
struct NumberRangeStep {
    static constexpr int width = 32;
    struct Found {
        std::uint32_t inverse_least, most, all;
    };
    using Lane = Found;

    const float* x;
    std::uint64_t size;
    Found* found;  // zeros before

    static constexpr std::uint64_t of_lane = 64;
    APSCOPE_HD std::uint64_t count() const {
        return (size + of_lane * width - 1) / (of_lane * width) * width;
    }
    APSCOPE_HD Found begin(std::uint64_t i) const {
        Found lane{0, 0, 0};
        const std::uint64_t first = i / width * (of_lane * width) + i % width;
        for (std::uint64_t k = 0; k < of_lane; ++k) {
            const std::uint64_t at = first + k * width;
            if (at >= size) break;
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(x[at]) & ~sign_bit<float>;
            lane = combine(lane, {magnitude == 0 ? 0 : ~magnitude, magnitude, magnitude});
        }
        return lane;
    }
    APSCOPE_HD static Found share(const Found& lane) { return lane; }
    APSCOPE_HD static Found combine(const Found& a, const Found& b) {
        return {a.inverse_least > b.inverse_least ? a.inverse_least : b.inverse_least,
                a.most > b.most ? a.most : b.most, a.all | b.all};
    }
    APSCOPE_HD void finish(std::uint64_t i, const Found&, const Found& all) const {
        if (i % width != 0) return;
        note_largest(&found->inverse_least, all.inverse_least);
        note_largest(&found->most, all.most);
        note_bits(&found->all, all.all);
    }
    static NumberRange range_of(const Found& found) {
        NumberRange range;
        if (found.inverse_least != 0) range.least = ~found.inverse_least;
        range.most = found.most;
        range.all = found.all;
        return range;
    }
};

}  // namespace apscope::detail
