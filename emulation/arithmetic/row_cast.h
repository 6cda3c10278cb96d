// Rounds rows of fp64 numbers, and sums of two rows, to a format, for the messages of schemes and
// for the hops of an all-reduce that fp32 sums do not support. The results have the same bits as
// those of round_to_format() and add_rounded(). There are three paths:
//
//      steps    deterministic: the few operations of rounding_steps.h
//      drawn    stochastic: the addition of core/grid.h truncates x, and the rest is compared with
//               the random integer r; both sides of the second row are exact
//
//                   below = x cut off to the grid
//                   up where x - below >= (2^N - r) 2^-N quantum
//
//               floor(2^N eta) + r >= 2^N is equivalent, because 2^N - r is an integer
//      rule     all other casts: gaps, unsigned formats, flushed numbers, kept payloads, other
//               stochastic modes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/float_format.h"
#include "core/philox.h"
#include "core/projection.h"
#include "emulation/arithmetic/rounding_steps.h"

namespace apscope::detail {

struct DrawnStep {
    StepCast<double> step;   // the grid, and the results of overflows
    double draws, per_draw;  // 2^N, 2^-N
};

class RowCast {
public:
    RowCast(const FloatFormat& format, const Projection& projection);
    const Cast<double>& cast() const { return cast_; }
    const FloatFormat& format() const { return format_; }
    const Projection& projection() const { return projection_; }

    // Sets out[i] = round(scale in[i]), with word first + i of the stream. The products must be
    // exact in fp64, as products of two fp32 numbers and products with a power of two are. `in` may
    // be `out`.
    void round(const float* in, double scale, double* out, std::size_t count,
               const RandomStream& stream, std::uint64_t first) const;
    void round(const double* in, double scale, double* out, std::size_t count,
               const RandomStream& stream, std::uint64_t first) const;
    // Sets out[i] = round(a[i] + sign b[i]), rounded once; `out` may be a or b. The operands must
    // meet the conditions of add_rounded().
    void add(const double* a, const double* b, double sign, double* out, std::size_t count,
             const RandomStream& stream, std::uint64_t first) const;

private:
    template <class Real>
    void round_scaled(const Real* in, double scale, double* out, std::size_t count,
                      const RandomStream& stream, std::uint64_t first) const;

    FloatFormat format_;
    Projection projection_;
    Cast<double> cast_;
    std::optional<StepCast<double>> step_;
    std::optional<DrawnStep> drawn_;
};

// Sets row[i] = round_to_format(row[i]), with the random word of element first + i of the stream.
void draw_and_round(double* row, std::size_t count, const Cast<double>& cast,
                    const RandomStream& stream, std::uint64_t first);

// Sets out[i] = a[i] + sign b[i], rounded to odd.
void sums_to_odd(const double* a, const double* b, double sign, double* out, std::size_t count);

}  // namespace apscope::detail
