// Arithmetic on arrays in a format given at run time: every operation is computed exactly and
// rounded once. ordered_sum.h builds sums, dot products and matrix products on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/exact_arithmetic.h"
#include "core/philox.h"
#include "core/projection.h"

namespace apscope::detail {

std::string_view to_string(Operation operation);
Operation parse_operation(std::string_view name);  // throws std::invalid_argument
int operand_count(Operation operation);

// The way in which an operation is computed, so that its single rounding is correct.
enum class ArithmeticPath {
    exact,  // the fp64 result is exact: a product of two fp32 numbers has 48 bits, its exponent is
            // -298 to 255
    odd,    // the fp64 result, rounded to odd, for fp32 operands (exponents stay far inside fp64's
          // range). A rounding to precision p with N random bits compares it with numbers of p + N
          // + 2 <= 53 bits, none of which is odd in fp64
    wide,  // 128-bit integers with a sticky bit, which is finer than any number that a rounding
           // compares with: for any fp64 operands and any format
};

// One rounding, prepared for rows: a format and a projection.
struct Rounder {
    Cast<double> cast;         // rounds results; operand_floor flushes the operands
    bool narrow = true;        // operands are fp32 numbers, or products of two of them
    double operand_floor = 0;  // operands of smaller magnitude count as zeros

    ArithmeticPath path(Operation operation) const;
    // Sets row[i] = round(a[i] op b[i] (op c[i])). Operands that the operation does not take are
    // ignored; `row` may be one of the operands. Element i draws word first + i of the stream.
    void apply(Operation operation, const double* a, const double* b, const double* c, double* row,
               std::size_t count, const RandomStream& stream, std::uint64_t first) const;
    // Sets row[i] = round(row[i]).
    void round(double* row, std::size_t count, const RandomStream& stream,
               std::uint64_t first) const;
};
// `narrow` promises operands that are fp32 numbers. Throws std::invalid_argument if the format does
// not support the projection, or for stochastic_exact.
Rounder make_rounder(const FloatFormat& format, const Projection& projection, bool narrow = true);

// Sets out[i] = round(a[i] op b[i] (op c[i])). An operand has one number or as many as `out`; those
// that the operation does not take are ignored. Stochastic rounding draws the word that quantize()
// draws for element i. `out` may be one of the operands. fp32 arrays need a format within fp32.
// `registers` = false uses the general path for fp32 arrays even if a faster path gives the same
// bits.
void arithmetic(Operation operation, std::span<const float> a, std::span<const float> b,
                std::span<const float> c, std::span<float> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed = 0, int threads = 1,
                bool registers = true);
void arithmetic(Operation operation, std::span<const double> a, std::span<const double> b,
                std::span<const double> c, std::span<double> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed = 0, int threads = 1);

}  // namespace apscope::detail
