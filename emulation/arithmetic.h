// Arithmetic on arrays in a format given at run time: every operation on fp32 numbers is computed
// exactly and rounded once. reductions.h builds sums, dot products and matrix products on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/exact_arithmetic.h"
#include "core/philox.h"
#include "core/projection.h"

namespace apscope {

std::string_view to_string(Operation operation);
Operation parse_operation(std::string_view name);  // throws std::invalid_argument
int operand_count(Operation operation);

// One rounding, ready to be applied to rows: a format and a projection.
struct Rounder {
    Cast<double> cast;
    RoundingMode mode = RoundingMode::ties_to_even;
    bool wide = false;  // more random bits than an odd fp64 number carries

    // row[i] = round(a[i] op b[i] (op c[i])); rows that the operation does not take may be any.
    // Element i draws word first + i of the stream.
    void apply(Operation operation, const double* a, const double* b, const double* c, double* row, std::size_t count,
               const RandomStream& stream, std::uint64_t first) const;
    // row[i] = round(row[i]), of numbers with at most 53 bits.
    void round(double* row, std::size_t count, const RandomStream& stream, std::uint64_t first) const;
};
// Throws std::invalid_argument if the format cannot do what the projection asks.
Rounder make_rounder(const FloatFormat& format, const Projection& projection);

// out[i] = round(a[i] op b[i] (op c[i])). An operand holds one number or as many as `out`; those that
// the operation does not take are ignored. Stochastic rounding draws the word that quantize() draws
// for element i. `out` may be one of the operands.
void arithmetic(Operation operation, std::span<const float> a, std::span<const float> b, std::span<const float> c,
                std::span<float> out, const FloatFormat& format, const Projection& projection, std::uint64_t seed = 0,
                int threads = 1);

}  // namespace apscope
