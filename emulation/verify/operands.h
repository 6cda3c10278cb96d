// The operands at which an arithmetic operation in a format can go wrong.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/arithmetic/arithmetic.h"

namespace apscope::detail::oracle {

template <class Real>
class Operands {
public:
    // With `exhaustive`, fma is tested on all operands in formats of up to 6 bits, else of up to 4
    // bits.
    Operands(const FloatFormat& format, Operation operation, const Projection& projection,
             bool exhaustive, std::uint64_t seed);

    // The number of cases whose operands are from a list (the values of all codes, or boundary
    // values). These are the first cases.
    std::uint64_t listed() const { return listed_; }
    // The operands of a case. From case listed() on, they are random and depend only on the seed,
    // the case and, in some cases, on `word`, the random word that the rounding will draw: in these
    // cases, the exact result is near the point from which on `word` rounds up.
    std::array<Real, 3> at(std::uint64_t number, std::uint64_t word) const;

private:
    class Draws;
    void list_boundaries();
    std::array<Real, 3> sample(std::uint64_t number, std::uint64_t word) const;
    Real value(std::uint64_t code) const;
    Real any(Draws& draws, bool of_format) const;
    Real near(double target, Draws& draws, bool of_format) const;
    std::array<Real, 3> near_cancellation(Draws& draws, bool of_format) const;
    std::array<Real, 3> near_tie(Draws& draws, bool of_format) const;
    std::array<Real, 3> at_the_turn(Draws& draws, std::uint64_t word) const;
    std::uint64_t code_below(double magnitude) const;

    FloatFormat format_;
    Operation operation_;
    Projection projection_;
    int count_;
    std::uint64_t seed_, listed_;
    std::vector<Real> list_;
};

}  // namespace apscope::detail::oracle
