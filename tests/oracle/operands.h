// The operands at which an arithmetic operation in a format can go wrong.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/float_format.h"
#include "emulation/arithmetic.h"

namespace apscope::oracle {

template <class Real>
class Operands {
public:
    // `exhaustive`: all operands of fma up to 6 bits, not 4.
    Operands(const FloatFormat& format, Operation operation, bool exhaustive, std::uint64_t seed);

    // The first so many are every choice out of a list: all codes' values, or boundary values.
    std::uint64_t listed() const { return listed_; }
    // The operands with that number; from listed() on they are random, the same for the same seed.
    std::array<Real, 3> at(std::uint64_t number) const;

private:
    class Draws;
    void list_boundaries();
    std::array<Real, 3> sample(std::uint64_t number) const;
    Real value(std::uint64_t code) const;
    Real any(Draws& draws, bool of_format) const;
    Real near(double target, Draws& draws, bool of_format) const;
    std::array<Real, 3> near_cancellation(Draws& draws, bool of_format) const;
    std::array<Real, 3> near_tie(Draws& draws, bool of_format) const;
    std::uint64_t code_below(double magnitude) const;

    FloatFormat format_;
    Operation operation_;
    int count_;
    std::uint64_t seed_, listed_;
    std::vector<Real> list_;
};

}  // namespace apscope::oracle
