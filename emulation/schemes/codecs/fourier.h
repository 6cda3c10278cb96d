// The discrete Fourier transform of a row of real numbers, and its inverse, in fp64. Any length is
// possible; the bits are the same on every machine.
//
//      X[k] = sum over j of x[j] exp(-2 pi i j k / n)      k = 0 .. floor(n / 2)
//
// For an even n, X is computed from the complex transform of n / 2 numbers x[0] + i x[1],
// x[2] + i x[3], ...
#pragma once

#include <cstddef>
#include <span>

#include "emulation/schemes/codecs/complex_fourier.h"

namespace apscope::detail {

class RealFourier {
public:
    explicit RealFourier(std::size_t n);  // n >= 1
    std::size_t size() const { return n_; }
    std::size_t bins() const { return n_ / 2 + 1; }
    static std::size_t numbers(std::size_t n);  // count of fp64 numbers in the tables and buffers

    // x has n numbers; re and im have bins() numbers each.
    void forward(std::span<const double> x, std::span<double> re, std::span<double> im);
    // Computes x, which is n times the row with these coefficients. im[0] and, for an even n, the
    // last element of im are treated as 0.
    void inverse(std::span<const double> re, std::span<const double> im, std::span<double> x);

private:
    std::size_t n_, complex_;  // lengths of the row and of the complex transform
    ComplexFourier transform_;
    Row half_re_, half_im_;  // exp(-2 pi i k / n), if n is even
    Row re_, im_;
};

}  // namespace apscope::detail
