// Matrix products as a matrix unit adds them (core/matrix_unit.h), one output per thread.
#pragma once

#include <cstdint>

#include "core/rounding.h"
#include "emulation/arithmetic/unit_chains.h"
#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

// Aligned: the unit has NVIDIA's rule. The others need memory for their terms, which costs a
// thread's registers.
template <bool Aligned>
struct UnitStep {
    const float *a, *b;  // (batches, rows, terms) and (batches, terms, columns)
    const float* c;      // of the shape of `out`, or null for +0
    float* out;
    std::uint64_t batches, rows, terms, columns;
    MatrixUnit unit;
    UnitChains chains;
    int smallest_a, smallest_b;  // exponents of the formats' smallest normal numbers

    APSCOPE_HD std::uint64_t count() const { return batches * rows * columns; }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        MatrixUnit known = unit;
        if constexpr (Aligned) known.rule = MatrixUnit::Rule::aligned;
        const float *row = a + i / columns * terms,
                    *column = b + (i / columns / rows * terms * columns + i % columns);
        float sum = c == nullptr ? 0.0f : unit_addend(c[i], known);
        const auto add = [&](std::uint64_t, std::uint64_t first, std::uint64_t end, float* carry) {
            const int instruction = known.instruction();
            for (; first < end; first += static_cast<std::uint64_t>(instruction)) {
                for (int place = 0; place < instruction; place += known.block)
                    *carry = add_block(known, Block{*this, row, 1, smallest_a, first, end, place},
                                       Block{*this, column, columns, smallest_b, first, end, place},
                                       known.block, *carry);
            }
        };
        add_chains<1>(chains, known, &sum, add);
        out[i] = sum != sum ? bits_cast<float>(std::uint32_t{0x7FFFFFFF}) : sum;
    }

private:
    // The operands of a block whose first product has place `place` of the instruction that begins
    // with term `first`. Those of terms from `end` on are absent, which are zeros.
    struct Block {
        const UnitStep& step;
        const float* x;
        std::uint64_t stride;
        int smallest;
        std::uint64_t first, end;
        int place;

        APSCOPE_HD UnitNumber operator[](int k) const {
            const std::uint64_t term =
                first + static_cast<std::uint64_t>(step.unit.product_at(place + k));
            if (term >= end) return {};
            return unit_operand(x[term * stride], smallest, step.unit);
        }
    };
};

// Sets *first to the smallest index of a number that is not a value of the cast's format.
struct FindOtherNumber {
    const float* x;
    std::uint64_t size;
    Cast<double> cast;
    unsigned long long* first;

    APSCOPE_HD std::uint64_t count() const { return size; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const double given = x[i], value = round_to_format<RoundingMode::ties_to_even, double>(
                                       given, cast, std::uint64_t{0});
        if (!(given == value || (given != given && value != value))) note_first(first, i);
    }
};

}  // namespace apscope::detail
