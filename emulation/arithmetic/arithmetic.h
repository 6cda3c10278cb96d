// Arithmetic on arrays in a format given at run time: every operation is computed exactly and
// rounded once. ordered_sum.h builds sums, dot products and matrix products from these operations.
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
// The number of operands that the operation takes, 1 to 3.
int operand_count(Operation operation);

// The way to compute the result of an operation so precisely that one rounding of it is correct.
enum class ArithmeticPath {
    exact,  // the fp64 result, which is exact: a product of two fp32 numbers has 48 bits and an
            // exponent from -298 to 255
    odd,    // the fp64 result, rounded to odd, for fp32 operands (exponents stay far inside fp64's
          // range). A rounding to precision p with N random bits compares it with numbers of p + N
          // + 2 <= 53 bits, none of which is odd in fp64
    wide,  // 128-bit integers with a sticky bit, for any fp64 operands and any format. The sticky
           // bit is finer than any number with which a rounding compares
};

// One rounding, prepared for rows: a format and a projection.
struct Rounder {
    Cast<double> cast;         // rounds results; does not flush operands
    bool narrow = true;        // operands are fp32 numbers, or products of two of them
    double operand_floor = 0;  // operands of smaller magnitude are flushed to zeros

    ArithmeticPath path(Operation operation) const;
    // Sets row[i] = round(a[i] op b[i] (op c[i])). Operands that the operation does not take are
    // ignored; `row` may be one of the operands. Element i draws word first + i of the stream.
    void apply(Operation operation, const double* a, const double* b, const double* c, double* row,
               std::size_t count, const RandomStream& stream, std::uint64_t first) const;
    // Sets row[i] = round(row[i]).
    void round(double* row, std::size_t count, const RandomStream& stream,
               std::uint64_t first) const;
};
// `narrow` says that all operands will be fp32 numbers. Throws std::invalid_argument if the format
// does not support the projection, or if the mode is stochastic_exact.
Rounder make_rounder(const FloatFormat& format, const Projection& projection, bool narrow = true);

// Sets out[i] = round(a[i] op b[i] (op c[i])). An operand has one number or as many as `out`.
// Operands that the operation does not take are ignored. Stochastic rounding of element i draws the
// same word as in quantize(). `out` may be one of the operands. For fp32 arrays, the format's
// values must be fp32 numbers. `registers` = false uses the general path for fp32 arrays even if a
// faster path gives the same bits.
void arithmetic(Operation operation, std::span<const float> a, std::span<const float> b,
                std::span<const float> c, std::span<float> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed = 0, int threads = 1,
                bool registers = true);
void arithmetic(Operation operation, std::span<const double> a, std::span<const double> b,
                std::span<const double> c, std::span<double> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed = 0, int threads = 1);

}  // namespace apscope::detail
